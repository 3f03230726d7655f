package bert

import (
	"fmt"
	"slices"
	"strings"

	"harness.invalid/core/tensor"
)

// Operator is an operator of the model as it can be watched from outside: by the result that it stores and by the gradient of that result.
type Operator struct {
	// Name is that of Hugging Face's module, and the prefix of the operator's parameters. A dense layer's result is what the Device stores of it: after
	// the activation where one follows, with the residual added where one is.
	Name string
	Site Site
	// From names the operators whose backward pass computes the gradient of the result.
	From string
	per  per
	// Width is the number of columns of the result.
	Width int
	// Read says that the loss depends on the rows of Batch.Read alone. The others' gradients are 0, and their results need not be computed.
	Read bool
}

// LossName is From of the operators whose result goes into the loss.
const LossName = "loss"

// Operators are the operators of a model that have a result of their own, in the order of the forward pass. Their gradients come in the opposite order.
func Operators(c Config, h Head) []Operator {
	H := c.HiddenSize
	var all []Operator
	add := func(layer int, op Op, name, from string, p per, width int) {
		read := layer == c.NumHiddenLayers-1 && op != OpKey && op != OpValue && h.Task != QuestionAnswering
		all = append(all, Operator{Name: name, Site: Site{layer, op}, From: from, per: p, Width: width, Read: read})
	}
	layer := func(i int) string { return fmt.Sprintf("bert.encoder.layer.%d.", i) }
	heads := map[Task]string{
		Pretraining:       "cls.predictions.transform.dense, bert.pooler.dense",
		QuestionAnswering: "qa_outputs",
		Classification:    "bert.pooler.dense",
		MultipleChoice:    "bert.pooler.dense",
	}[h.Task]
	// reader is what reads the hidden states that enter layer i.
	reader := func(i int) string {
		if i == c.NumHiddenLayers {
			return heads
		}
		return layer(i) + "attention"
	}
	add(-1, OpEmbeddings, embeddingsName, reader(0), perToken, H)
	for i := range c.NumHiddenLayers {
		l := layer(i)
		add(i, OpQuery, l+"attention.self.query", l+"attention.self", perToken, H)
		add(i, OpKey, l+"attention.self.key", l+"attention.self", perToken, H)
		add(i, OpValue, l+"attention.self.value", l+"attention.self", perToken, H)
		add(i, OpAttention, l+"attention.self", l+"attention.output.dense", perToken, H)
		add(i, OpAttentionOutput, l+"attention.output.dense", l+"attention.output.LayerNorm", perToken, H)
		add(i, OpAttentionNorm, l+"attention.output.LayerNorm", l+"intermediate.dense", perToken, H)
		add(i, OpIntermediate, l+"intermediate.dense", l+"output.dense", perToken, c.IntermediateSize)
		add(i, OpOutput, l+"output.dense", l+"output.LayerNorm", perToken, H)
		add(i, OpOutputNorm, l+"output.LayerNorm", reader(i+1), perToken, H)
	}
	pooler := func(from string) { add(-1, OpPooler, "bert.pooler.dense", from, perSequence, H) }
	switch h.Task {
	case Pretraining:
		add(-1, OpTransform, "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", perMasked, H)
		add(-1, OpTransformNorm, "cls.predictions.transform.LayerNorm", decoderName, perMasked, H)
		add(-1, OpDecoder, decoderName, LossName, perMasked, c.VocabSize)
		pooler("cls.seq_relationship")
		add(-1, OpNextSentence, "cls.seq_relationship", LossName, perSequence, 2)
	case QuestionAnswering:
		add(-1, OpSpan, "qa_outputs", LossName, perToken, 2)
	case Classification:
		pooler("classifier")
		add(-1, OpClassifier, "classifier", LossName, perSequence, h.Labels)
	case MultipleChoice:
		pooler("classifier")
		add(-1, OpClassifier, "classifier", LossName, perSequence, 1)
	}
	return all
}

const (
	embeddingsName = "bert.embeddings"
	decoderName    = "cls.predictions.decoder"
)

// Shape is the shape of the operator's result for a micro-batch: rows of tokens, sequences or masked positions, those of one sequence together.
func (o Operator) Shape(s Shape) tensor.Shape {
	s.Sequences = max(1, s.Sequences)
	return tensor.Shape{s.rows(o.per), o.Width}
}

// Relevant are the rows of a result of a micro-batch, or of its gradient, that the loss depends on, each once: all of them unless Read is set.
func (o Operator) Relevant(values []float32, h Head, b *Batch) []float32 {
	if !o.Read {
		return values
	}
	rows := b.Read(h)
	slices.Sort(rows)
	var relevant []float32
	for _, row := range slices.Compact(rows) {
		relevant = append(relevant, values[int(row)*o.Width:][:o.Width]...)
	}
	return relevant
}

// OperatorOf is the name of the operator that a parameter belongs to, by the parameter's name. The word embeddings are the embeddings', also where they
// are the decoder's weight.
func OperatorOf(parameter string) string {
	switch {
	case strings.HasPrefix(parameter, embeddingsName):
		return embeddingsName
	case parameter == "cls.predictions.bias":
		return decoderName
	}
	return parameter[:max(0, strings.LastIndexByte(parameter, '.'))]
}

// Watch returns a Device that does what d does and shows the result of every operator right after its forward pass, and the gradient of that result right
// before the backward pass that starts from it. An operator that runs again is shown once. The values last until see returns.
func Watch(d Device, see func(s Site, gradient bool, values []float32)) Device {
	type seen struct {
		site     Site
		gradient bool
	}
	before := map[seen]bool{}
	return &watched{Device: d, see: func(s Site, gradient bool, values []float32) {
		if k := (seen{s, gradient}); !before[k] {
			before[k] = true
			see(s, gradient, values)
		}
	}}
}

type watched struct {
	Device
	see func(s Site, gradient bool, values []float32)
}

func (w *watched) Embed(p *Pass, op *Embed) {
	w.Device.Embed(p, op)
	w.see(op.Site, false, op.Y)
}

func (w *watched) EmbedBackward(p *Pass, op *Embed, dy []float32) {
	w.see(op.Site, true, dy)
	w.Device.EmbedBackward(p, op, dy)
}

func (w *watched) Linear(p *Pass, op *Linear) {
	w.Device.Linear(p, op)
	w.see(op.Site, false, op.Y)
}

func (w *watched) LinearBackward(p *Pass, op *Linear, dy, dx []float32, accumulate bool) {
	w.see(op.Site, true, dy)
	w.Device.LinearBackward(p, op, dy, dx, accumulate)
}

func (w *watched) Norm(p *Pass, op *Norm) {
	w.Device.Norm(p, op)
	w.see(op.Site, false, op.Y)
}

func (w *watched) NormBackward(p *Pass, op *Norm, dy, dx []float32) {
	w.see(op.Site, true, dy)
	w.Device.NormBackward(p, op, dy, dx)
}

func (w *watched) Attention(p *Pass, op *Attention) {
	w.Device.Attention(p, op)
	w.see(op.Site, false, op.Context)
}

func (w *watched) AttentionBackward(p *Pass, op *Attention, dcontext, dq, dk, dv []float32) {
	w.see(op.Site, true, dcontext)
	w.Device.AttentionBackward(p, op, dcontext, dq, dk, dv)
}
