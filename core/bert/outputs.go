package bert

import (
	"slices"

	"harness.invalid/core/tensor"
)

// Outputs that are no operator's whole result: the last layer's under another name, and the columns of the span's
// logits.
const (
	sequenceOutput = "sequence_output"
	startLogits    = "start_logits"
	endLogits      = "end_logits"
)

// Wants is what an evaluation for some outputs needs.
func Wants(c Config, h Head, outputs []string) Wanted {
	for _, o := range Operators(c, h) {
		if o.Hidden && o.Output != "" && slices.Contains(outputs, o.Output) || slices.Contains(outputs, sequenceOutput) {
			return WantAll
		}
	}
	return WantHeads
}

// OutputNames are the names that Output knows for a model, in the order of the forward pass.
func OutputNames(c Config, h Head) []string {
	var names []string
	for _, o := range Operators(c, h) {
		if o.Output != "" {
			names = append(names, o.Output)
		}
		if o.Hidden && o.Unit == c.Units()-2 {
			names = append(names, sequenceOutput)
		}
		if o.Site.Op == OpSpan {
			names = append(names, startLogits, endLogits)
		}
	}
	return names
}

// Output returns a result of the last forward pass without training by its name, and false when no unit of the part
// has it. The values belong to the network and last until its next pass. Of tokens that the pass did not compute (see
// Wanted) hidden states are 0.
//
//	embeddings, layer.0, layer.1, ..., sequence_output  [B, S, H]
//	pooler_output                                        [B, H]
//	mlm_logits [B, P, V]   nsp_logits [B, 2]             Pretraining
//	start_logits, end_logits [B, S]                      QuestionAnswering
//	logits [B, labels], [B, 1]                           Classification, MultipleChoice
//	logits [B, S, labels]                                TokenClassification; 0 for tokens that attention masks out
//
// Packed rows have B·Q sequences in place of B in pooler_output and nsp_logits.
func (n *Network) Output(name string) (tensor.Shape, []float32, bool) {
	s := n.current
	switch {
	case name == startLogits && n.span != nil:
		return tensor.Shape{s.Size, s.Length}, n.start, true
	case name == endLogits && n.span != nil:
		return tensor.Shape{s.Size, s.Length}, n.finish, true
	}
	b := n.outputs[name]
	if b == nil {
		return nil, nil, false
	}
	shape := tensor.Shape{s.rows(b.rows), b.width}
	switch b.rows {
	case AllTokens, ReadTokens: // an evaluation computes all tokens of the last layer, too
		shape = tensor.Shape{s.Size, s.Length, b.width}
	case MaskedTokens:
		shape = tensor.Shape{s.Size, s.Predictions, b.width}
	}
	values := n.spread(b)
	if b == n.labelLogits && n.model.Head.Task == TokenClassification {
		for token, seen := range n.batch.AttentionMask {
			if seen == 0 {
				clear(values[token*b.width:][:b.width])
			}
		}
	}
	return shape, values, true
}
