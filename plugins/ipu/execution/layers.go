package execution

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"harness.invalid/core/bert"
	"harness.invalid/core/emulator"
)

// Layers are the numbers of encoder layers on the IPUs of a replica, as the option pipeline has them. Halves are
// allowed: n.5 ends between attention and feed-forward of a layer. 0 leaves the first IPU to embeddings and heads.
type Layers []float64

// String writes layers as the option does, such as 3,7,7,7.
func (l Layers) String() string {
	text := make([]string, len(l))
	for i, n := range l {
		text[i] = fmt.Sprint(n)
	}
	return strings.Join(text, ",")
}

// Spread lays layers over n IPUs evenly. The embeddings and heads on the first one weigh about as much as three layers.
func Spread(layers, n int) Layers {
	most := (layers + 3 + n - 1) / n
	first := max(0, layers-most*(n-1))
	list := Layers{float64(first)}
	for i := 1; i < n; i++ {
		list = append(list, float64((layers-first)*i/(n-1)-(layers-first)*(i-1)/(n-1)))
	}
	return list
}

// Published returns the layers of Graphcore's configurations of BERT-Large and Base, and one IPU for other models.
// Source: graphcore/examples, PopART and TensorFlow; the latter write Base as 4,4,4 with encoder_start_ipu 1.
func Published(c *bert.Config) Layers {
	switch {
	case c.NumHiddenLayers == 24 && c.HiddenSize == 1024:
		return Layers{3, 7, 7, 7}
	case c.NumHiddenLayers == 12 && c.HiddenSize == 768:
		return Layers{0, 4, 4, 4}
	}
	return Layers{float64(c.NumHiddenLayers)}
}

// readLayers reads the option pipeline.
func readLayers(pipeline string, c *bert.Config) (Layers, error) {
	switch pipeline {
	case wholeModel:
		return Layers{float64(c.NumHiddenLayers)}, nil
	case published:
		return Published(c), nil
	}
	var list Layers
	sum := 0.
	for i, text := range strings.Split(pipeline, ",") {
		layers, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		whole := 2*layers == math.Trunc(2*layers)
		if err != nil || !whole || layers < 0 || layers > float64(c.NumHiddenLayers) || layers == 0 && i > 0 {
			return nil, fmt.Errorf("option pipeline is %q: IPU %d has %q layers, want all, published, or whole or half numbers "+
				"of layers (0 on the first IPU alone) such as 3,7,7,7", pipeline, i, text)
		}
		list, sum = append(list, layers), sum+layers
	}
	if sum != float64(c.NumHiddenLayers) {
		return nil, fmt.Errorf("option pipeline is %q: that is %g layers, the model has %d", pipeline, sum, c.NumHiddenLayers)
	}
	return list, nil
}

// stages places the units of a model. The embeddings are on the first IPU. In a pipeline the heads of pre-training
// are a last stage there, since the decoder's weight is that of the embeddings; the heads of other tasks are on the
// last IPU.
func (l Layers) stages(c *bert.Config, h bert.Head) []emulator.Stage {
	var list []emulator.Stage
	unit := 0
	for i, layers := range l {
		end := unit + int(2*layers)
		if i == 0 {
			end++
		}
		list = append(list, emulator.Stage{First: unit, End: end, Device: i})
		unit = end
	}
	last := len(list) - 1
	if h.Task == bert.Pretraining && last > 0 {
		return append(list, emulator.Stage{First: unit, End: c.Units(), Device: 0})
	}
	list[last].End = c.Units()
	return list
}

// phases cuts a model into the phases of phased execution: embeddings, layers, heads.
func phases(c *bert.Config, layers int) []emulator.Stage {
	stages := []emulator.Stage{{First: 0, End: 1}}
	heads := c.Units() - 1
	for u := 1; u < heads; u += 2 * layers {
		stages = append(stages, emulator.Stage{First: u, End: min(heads, u+2*layers)})
	}
	return append(stages, emulator.Stage{First: heads, End: heads + 1})
}
