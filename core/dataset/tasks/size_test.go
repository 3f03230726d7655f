package tasks_test

import (
	"testing"

	"harness.invalid/core/bert"
	"harness.invalid/core/dataset/tasks"
)

// TestTrainingSequences: every task has a size. TestReference holds it against the published files.
func TestTrainingSequences(t *testing.T) {
	for _, task := range tasks.All() {
		if n := task.TrainingSequences(); n < 500 || task.Kind == bert.MultipleChoice && n%task.Choices != 0 {
			t.Errorf("%s: %d sequences", task.Name, n)
		}
	}
}
