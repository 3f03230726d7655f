package pretrained

import (
	"path/filepath"

	"harness.invalid/core/bert"
	"harness.invalid/core/checkpoint/huggingface"
	"harness.invalid/core/durable"
	"harness.invalid/core/recipe"
	"harness.invalid/core/tensor"
)

// RecipeFile is the name of the recipe in a folder that Save wrote.
const RecipeFile = "recipe.yaml"

// Trained is a model that a phase of a recipe has trained.
type Trained struct {
	Recipe    *recipe.Recipe
	Phase     *recipe.Phase
	Model     bert.Config
	Tokenizer huggingface.Tokenizer
	Layout    *tensor.Layout
	Params    []float32
}

// Save writes the model in Hugging Face's format, with its tokenizer and the recipe, which tells `harness predict`
// the task, and the sums of these files.
func (m Trained) Save(dir string) error {
	c, err := Config(m.Phase, m.Model)
	if err != nil {
		return err
	}
	if err := huggingface.Save(dir, c, m.Phase.Head(), m.Layout, m.Params, tensor.F32); err != nil {
		return err
	}
	m.Tokenizer.MaxLength = c.Model.MaxPositionEmbeddings
	if err := m.Tokenizer.Save(dir); err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(dir, RecipeFile), m.Recipe.Write); err != nil {
		return err
	}
	return huggingface.Seal(dir, RecipeFile)
}

// Config is the configuration that the folder of a phase's model gets: with the class that transformers has for it,
// and the names of the task's labels.
func Config(p *recipe.Phase, model bert.Config) (huggingface.Config, error) {
	c := huggingface.NewConfig(model, p.Head())
	t := p.FineTuning()
	if t == nil {
		return c, nil
	}
	return c, addLabels(&c, t)
}
