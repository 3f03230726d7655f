package bert

import (
	"fmt"
	"slices"
	"strings"

	"harness.invalid/core/tensor"
)

// operators is the table of the model's operators, in the order of the forward pass. Everything that depends on
// which operators there are follows from it: the parameters and their order, the units, the buffers of a Network,
// both passes, the names of outputs and traces.
//
// Names are those of Hugging Face's modules, within a layer for operators of a layer.
var operators = []unitRows{
	{unit: embeddingsUnit, rows: []row{
		{op: OpEmbeddings, name: "bert.embeddings", kind: EmbedKind, rows: AllTokens, width: hiddenSize, dropout: true, output: "embeddings"},
	}},
	{unit: attentionUnit, rows: []row{
		{op: OpQuery, name: "attention.self.query", kind: LinearKind, rows: ReadTokens, width: hiddenSize},
		{op: OpKey, name: "attention.self.key", kind: LinearKind, rows: AllTokens, width: hiddenSize},
		{op: OpValue, name: "attention.self.value", kind: LinearKind, rows: AllTokens, width: hiddenSize},
		{op: OpAttention, name: "attention.self", kind: AttentionKind, rows: ReadTokens, width: hiddenSize,
			reads: []Op{OpQuery, OpKey, OpValue}},
		{op: OpAttentionOutput, name: "attention.output.dense", kind: LinearKind, rows: ReadTokens, width: hiddenSize,
			reads: []Op{OpAttention}, dropout: true, residual: true},
		{op: OpAttentionNorm, name: "attention.output.LayerNorm", kind: NormKind, rows: ReadTokens, width: hiddenSize,
			reads: []Op{OpAttentionOutput}},
	}},
	{unit: feedForwardUnit, rows: []row{
		{op: OpIntermediate, name: "intermediate.dense", kind: LinearKind, rows: ReadTokens, width: intermediateSize, activation: hiddenAct},
		{op: OpOutput, name: "output.dense", kind: LinearKind, rows: ReadTokens, width: hiddenSize,
			reads: []Op{OpIntermediate}, dropout: true, residual: true},
		{op: OpOutputNorm, name: "output.LayerNorm", kind: NormKind, rows: ReadTokens, width: hiddenSize,
			reads: []Op{OpOutput}, output: "layer.%d"},
	}},
	{unit: headsUnit, tasks: []Task{Pretraining}, rows: []row{
		{op: OpPooler, name: "bert.pooler.dense", kind: LinearKind, rows: FirstTokens, width: hiddenSize,
			activation: Tanh, output: "pooler_output"},
		{op: OpTransform, name: "cls.predictions.transform.dense", kind: LinearKind, rows: MaskedTokens, width: hiddenSize,
			activation: hiddenAct},
		{op: OpTransformNorm, name: "cls.predictions.transform.LayerNorm", kind: NormKind, rows: MaskedTokens, width: hiddenSize,
			reads: []Op{OpTransform}},
		{op: OpDecoder, name: "cls.predictions.decoder", kind: LinearKind, rows: MaskedTokens, width: vocabSize,
			reads: []Op{OpTransformNorm}, weight: wordEmbeddings, bias: "cls.predictions.bias", output: "mlm_logits"},
		{op: OpNextSentence, name: "cls.seq_relationship", kind: LinearKind, rows: FirstTokens, width: two,
			reads: []Op{OpPooler}, output: "nsp_logits"},
	}},
	{unit: headsUnit, tasks: []Task{QuestionAnswering}, rows: []row{
		{op: OpSpan, name: "qa_outputs", kind: LinearKind, rows: AllTokens, width: two},
	}},
	{unit: headsUnit, tasks: []Task{Classification, MultipleChoice}, rows: []row{
		{op: OpPooler, name: "bert.pooler.dense", kind: LinearKind, rows: FirstTokens, width: hiddenSize,
			activation: Tanh, dropout: true, output: "pooler_output"},
		{op: OpClassifier, name: "classifier", kind: LinearKind, rows: FirstTokens, width: numLabels,
			reads: []Op{OpPooler}, output: "logits"},
	}},
	{unit: headsUnit, tasks: []Task{TokenClassification}, rows: []row{
		{op: OpClassifier, name: "classifier", kind: LinearKind, rows: AllTokens, width: numLabels, output: "logits"},
	}},
}

// unitRows are the operators of a kind of unit.
type unitRows struct {
	unit  unit
	tasks []Task // whose heads they are; nil: they belong to every model
	rows  []row
}

// row is an operator in the table.
type row struct {
	op         Op
	name       string
	kind       Kind
	rows       Rows
	width      func(c *Config, h Head) int
	reads      []Op // of the same unit; nil: the hidden states that enter the unit
	activation Activation
	dropout    bool   // with Config.HiddenDropoutProb
	residual   bool   // adds the hidden states that enter the unit
	weight     string // "": the name with .weight
	bias       string // "": the name with .bias
	output     string // its name in Network.Output; "": not an output
}

// hiddenAct is Config.HiddenAct in the table.
const hiddenAct Activation = "hidden_act"

// Widths of results.
func hiddenSize(c *Config, _ Head) int       { return c.HiddenSize }
func intermediateSize(c *Config, _ Head) int { return c.IntermediateSize }
func vocabSize(c *Config, _ Head) int        { return c.VocabSize }
func two(*Config, Head) int                  { return 2 }
func numLabels(_ *Config, h Head) int {
	if h.Task == MultipleChoice {
		return 1 // each choice is a sequence with a score of its own
	}
	return h.Labels
}

// Kind is what an operator computes, and with which description in Device.
type Kind uint8

// The kinds.
const (
	EmbedKind     Kind = iota // Embed
	LinearKind                // Linear
	NormKind                  // Norm
	AttentionKind             // Attention
)

// Operator is an operator of a model with a head. Its result is what a Device stores: for a dense layer after the
// activation, if it has one, and with the residual added, if it adds one.
type Operator struct {
	Name  string // Hugging Face's module
	Site  Site
	Unit  int // see Config.Units
	Kind  Kind
	Rows  Rows // what the rows of the result stand for
	In    int  // columns of what it reads
	Width int  // columns of the result
	// Reads names the operators whose results it reads, From those whose backward passes compute the gradient of its
	// result: query, key and value count as "...attention". From is LossName where the loss reads the result.
	Reads []string
	From  string
	// Residual names the operator whose result it adds to its own, after dropout; "": none.
	Residual string
	// Hidden says that the result is the hidden states that leave the unit. The next unit reads them more than once.
	Hidden     bool
	Activation Activation
	Dropout    float64
	// Weight and Bias name its parameters; those of EmbedKind are the layer norm's, and it has three tables besides.
	Weight, Bias string
	Output       string // its name in Network.Output; "": not an output
}

// LossName is Operator.From of the operators whose results go into the loss.
const LossName = "loss"

// Operators returns the operators of a model with a head, in the order of the forward pass.
func Operators(c Config, h Head) []Operator {
	var all []Operator
	add := func(u unit, layer int) {
		entering := ""
		if len(all) > 0 {
			entering = all[len(all)-1].Name
		}
		for _, of := range operators {
			if of.unit == u && (of.tasks == nil || slices.Contains(of.tasks, h.Task)) {
				for i := range of.rows {
					all = append(all, of.operator(i, &c, h, layer, entering))
				}
			}
		}
		all[len(all)-1].Hidden = u != headsUnit
	}
	add(embeddingsUnit, -1)
	for i := range c.NumHiddenLayers {
		add(attentionUnit, i)
		add(feedForwardUnit, i)
	}
	add(headsUnit, -1)
	readers, widths := readers(all), map[string]int{}
	for i := range all {
		o := &all[i]
		o.From, widths[o.Name] = LossName, o.Width
		if names := readers[o.Name]; names != nil {
			o.From = strings.Join(slices.Compact(names), ", ")
		}
		if o.In = c.HiddenSize; o.Reads != nil {
			o.In = widths[o.Reads[0]]
		}
	}
	return all
}

// operator is row i for a model; entering names the operator whose result enters the unit.
func (u *unitRows) operator(i int, c *Config, h Head, layer int, entering string) Operator {
	r, prefix := &u.rows[i], ""
	if layer >= 0 {
		prefix = fmt.Sprintf(layerPrefix, layer)
	}
	o := Operator{Name: prefix + r.name, Site: Site{layer, r.op}, Unit: u.unit.of(c, layer), Kind: r.kind, Rows: r.rows, Width: r.width(c, h),
		Activation: r.activation, Weight: r.weight, Bias: r.bias, Output: r.output}
	if o.Rows == ReadTokens && (layer < c.NumHiddenLayers-1 || h.readsEach()) {
		o.Rows = AllTokens
	}
	if o.Activation == hiddenAct {
		o.Activation = c.HiddenAct
	}
	// BertForTokenClassification drops out what its classifier reads.
	beforeClassifier := r.op == OpOutputNorm && layer == c.NumHiddenLayers-1 && h.Task == TokenClassification
	if r.dropout || beforeClassifier {
		o.Dropout = c.HiddenDropoutProb
	}
	for _, op := range r.reads {
		i := slices.IndexFunc(u.rows, func(of row) bool { return of.op == op })
		o.Reads = append(o.Reads, prefix+u.rows[i].name)
	}
	if r.reads == nil && r.kind != EmbedKind {
		o.Reads = []string{entering}
	}
	if r.residual {
		o.Residual = entering
	}
	module := o.Name
	if o.Kind == EmbedKind {
		module += ".LayerNorm"
	}
	if o.Weight == "" && o.Kind != AttentionKind {
		o.Weight = module + ".weight"
	}
	if o.Bias == "" && o.Kind != AttentionKind {
		o.Bias = module + ".bias"
	}
	if strings.Contains(o.Output, "%d") {
		o.Output = fmt.Sprintf(o.Output, layer)
	}
	return o
}

// readers names the operators that read each result, see Operator.From.
func readers(all []Operator) map[string][]string {
	names := map[string][]string{}
	for _, o := range all {
		reader := o.Name
		if op := o.Site.Op; op == OpQuery || op == OpKey || op == OpValue {
			reader, _, _ = strings.Cut(reader, ".self.")
		}
		for _, result := range o.Reads {
			names[result] = append(names[result], reader)
		}
	}
	return names
}

// find returns the row that a parameter belongs to, its unit, and its layer or -1; nil for a parameter of no model.
// The word embeddings belong to the embeddings, although they are the decoder's weight as well.
func find(parameter string) (r *row, u unit, layer int) {
	if _, err := fmt.Sscanf(parameter, layerPrefix, &layer); err == nil {
		parameter = strings.TrimPrefix(parameter, fmt.Sprintf(layerPrefix, layer))
	} else {
		layer = -1
	}
	module := parameter[:max(0, strings.LastIndexByte(parameter, '.'))]
	if module == "" {
		return nil, 0, -1
	}
	for _, of := range operators {
		if inLayer := of.unit == attentionUnit || of.unit == feedForwardUnit; inLayer != (layer >= 0) {
			continue
		}
		for i := range of.rows {
			r := &of.rows[i]
			if parameter == r.bias || module == r.name || r.kind == EmbedKind && strings.HasPrefix(module, r.name+".") {
				return r, of.unit, layer
			}
		}
	}
	return nil, 0, -1
}

// OperatorOf is the name of the operator that a parameter belongs to, by the parameter's name, and "" for a
// parameter of no model. The word embeddings belong to the embeddings, although they are the decoder's weight as
// well.
func OperatorOf(parameter string) string {
	switch r, _, layer := find(parameter); {
	case r == nil:
		return ""
	case layer >= 0:
		return fmt.Sprintf(layerPrefix, layer) + r.name
	default:
		return r.name
	}
}

// layerPrefix begins the names of the operators and parameters of a layer.
const layerPrefix = "bert.encoder.layer.%d."

// The tables of the embeddings. The decoder of the masked LM head shares that of the words.
const (
	wordEmbeddings     = "bert.embeddings.word_embeddings.weight"
	positionEmbeddings = "bert.embeddings.position_embeddings.weight"
	typeEmbeddings     = "bert.embeddings.token_type_embeddings.weight"
)

// Shape is the shape of the operator's result for a micro-batch, with a row for every token also where only the
// read tokens are computed.
func (o Operator) Shape(s Shape) tensor.Shape {
	s.Sequences = max(1, s.Sequences)
	if o.Rows == ReadTokens {
		return tensor.Shape{s.rows(AllTokens), o.Width}
	}
	return tensor.Shape{s.rows(o.Rows), o.Width}
}

// MultiplyAdds is the number of multiply-adds of the matrix products in a forward pass over a micro-batch. All tokens count,
// also padding and, in the last layer, those that no head reads: a device that computes whole tensors does all of these.
func MultiplyAdds(c Config, h Head, s Shape) float64 {
	var sum float64
	for _, o := range Operators(c, h) {
		results := float64(o.Shape(s).Len())
		switch o.Kind {
		case LinearKind:
			sum += results * float64(o.In)
		case AttentionKind:
			sum += 2 * results * float64(s.Length) // scores, and their products with the values
		}
	}
	return sum
}

// Relevant returns the rows of an operator's result for a micro-batch, or of its gradient, that the loss depends
// on: those of the read tokens, each once, where Rows is ReadTokens; for keys and values those of the tokens that
// attention sees; of the others also those that it masks out and a head reads. values has a row for every token
// where the rows are tokens, as Shape says.
func (o Operator) Relevant(values []float32, h Head, b *Batch) []float32 {
	var relevant []int32
	switch op := o.Site.Op; {
	case o.Rows == FirstTokens || o.Rows == MaskedTokens:
		return values
	case o.Rows == ReadTokens && !h.readsAll():
		relevant = b.ReadTokens(h)
	default:
		t := newTokens(Shape{Size: b.Size, Length: b.Length})
		t.choose(&Pass{Train: true}, b, h, shut)
		if relevant = t.computed; op == OpKey || op == OpValue {
			relevant = relevant[:t.keys]
		}
	}
	slices.Sort(relevant)
	var found []float32
	for _, t := range slices.Compact(relevant) {
		found = append(found, values[int(t)*o.Width:][:o.Width]...)
	}
	return found
}
