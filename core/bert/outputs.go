package bert

import (
	"fmt"

	"harness.invalid/core/tensor"
)

// OutputNames are the names that Output knows for a model, in the order of the forward pass.
func OutputNames(c Config, h Head) []string {
	names := []string{"embeddings"}
	for i := range c.NumHiddenLayers {
		names = append(names, fmt.Sprintf("layer.%d", i))
	}
	names = append(names, "sequence_output")
	switch h.Task {
	case Pretraining:
		return append(names, "pooler_output", "mlm_logits", "nsp_logits")
	case QuestionAnswering:
		return append(names, "start_logits", "end_logits")
	}
	return append(names, "pooler_output", "logits")
}

// Output returns a result of the last forward pass without training by its name, and false when no unit of the part has it. The values belong to the
// network and last until its next pass.
//
//	embeddings, layer.0, layer.1, ..., sequence_output  [B, S, H]
//	pooler_output                                        [B, H]
//	mlm_logits [B, P, V]   nsp_logits [B, 2]             Pretraining
//	start_logits, end_logits [B, S]                      QuestionAnswering
//	logits [B, labels], [B, 1]                           Classification, MultipleChoice
//
// Packed rows have B·Q sequences in place of B in pooler_output and nsp_logits.
func (n *Network) Output(name string) (tensor.Shape, []float32, bool) {
	c, s, task := &n.model.Config, n.current, n.model.Head.Task
	hidden := tensor.Shape{s.Size, s.Length, c.HiddenSize}
	heads := n.end == c.Units()
	pooled := heads && n.pooler.Out > 0
	switch {
	case name == "embeddings" && n.first == 0:
		return hidden, n.embed.Y, true
	case name == "sequence_output":
		name = fmt.Sprintf("layer.%d", len(n.layers)-1)
	case name == "pooler_output" && pooled:
		return tensor.Shape{s.rows(perSequence), c.HiddenSize}, n.pooler.Y, true
	case name == "mlm_logits" && task == Pretraining && heads:
		return tensor.Shape{s.Size, s.Predictions, c.VocabSize}, n.decoder.Y, true
	case name == "nsp_logits" && task == Pretraining && heads:
		return tensor.Shape{s.rows(perSequence), 2}, n.nextSentence.Y, true
	case name == "start_logits" && task == QuestionAnswering && heads:
		return tensor.Shape{s.Size, s.Length}, n.start, true
	case name == "end_logits" && task == QuestionAnswering && heads:
		return tensor.Shape{s.Size, s.Length}, n.finish, true
	case name == "logits" && n.classifier.Out > 0:
		return tensor.Shape{s.Size, n.classifier.Out}, n.classifier.Y, true
	}
	for i := range n.layers {
		if u := 2 + 2*i; u >= n.first && u < n.end && name == fmt.Sprintf("layer.%d", i) {
			return hidden, n.layers[i].outputNorm.Y, true
		}
	}
	return nil, nil, false
}
