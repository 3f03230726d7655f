package costmodel

import (
	"fmt"
	"slices"
	"strings"

	"harness.invalid/core/option"
	"harness.invalid/core/spelling"
)

// software is a program that trains on GPUs: what it takes besides the work of the kernels.
type software struct {
	name, doc string
	// kernelSeconds that the host takes to submit a kernel: Python, dispatcher, autograd, driver.
	kernelSeconds float64
	// graphSeconds that the host takes to submit a whole micro-batch as a graph; 0: it submits kernels one by one.
	graphSeconds float64
	// gapSeconds between two kernels on the GPU that are there already.
	gapSeconds float64
	// fused updates all tensors with a few kernels, fusedMixed only under mixed precision.
	fused, fusedMixed bool
	// workers are processes that load data; 0: the one that submits the kernels loads them, too.
	workers float64
	// waits SQuADSeconds at each update.
	waits bool
}

// Host and launch costs.
//
// submitSeconds is what a small operator takes on the host with an A100: 8 µs for an addition (flagos-ai/Torch-FL, pull
// request 27, column cuda_sub); 7 µs on H100 (meta-pytorch/autoparallel, pull request 146), and 7 µs with autograd on
// a CPU (pytorch/pytorch, issue 41383). The gaps: a kernel of 2.9 µs takes 3.8 µs in a stream and 3.4 µs in a graph
// (Gray 2019, Getting Started with CUDA Graphs, on V100). A graph of kernels in a row is launched in 2.5 µs and 1 ns a
// kernel (NVIDIA 2024, Constant Time Launch for Straight-Line CUDA Graphs); the nanosecond is left out.
const (
	submitSeconds    = 8e-6
	streamGapSeconds = 0.9e-6
	graphGapSeconds  = 0.5e-6
	graphSeconds     = 2.5e-6
)

// loadSeconds is what a process takes to load a sequence of 128 tokens: five tensors from arrays in memory, put together
// by PyTorch's default_collate. Measured: 24 µs with PyTorch 1.13 on one core of a fourth-generation AMD EPYC.
// copyBytesPerSecond is that of a copy from pinned memory over PCIe Gen3 x16, 12 of its 16 GB/s: an assumption, and low
// for A100 and later. inputBytes of a token are three numbers of 8 bytes; those of positions and labels are left out.
const (
	loadSeconds        = 24e-6
	copyBytesPerSecond = 12e9
	inputBytes         = 3 * 8
)

// softwares that can be named. Four workers are an assumption for all but nvidia-squad, which loads data in its own process.
var softwares = []software{
	{name: "nvidia", doc: "NVIDIA's pre-training program (DeepLearningExamples), whose optimizer is fused under mixed precision",
		kernelSeconds: submitSeconds, gapSeconds: streamGapSeconds, fusedMixed: true, workers: 4},
	{name: "nvidia-squad", doc: "NVIDIA's program for SQuAD, which waits at each update for a reason that nobody has published",
		kernelSeconds: submitSeconds, gapSeconds: streamGapSeconds, fusedMixed: true, waits: true},
	{name: "eager", doc: "PyTorch's operators one by one, the optimizer's too",
		kernelSeconds: submitSeconds, gapSeconds: streamGapSeconds, workers: 4},
	{name: "graphs", doc: "micro-batches as CUDA graphs, and a fused optimizer",
		kernelSeconds: submitSeconds, graphSeconds: graphSeconds, gapSeconds: graphGapSeconds, fused: true, workers: 4},
}

const softwareOption = "software"

// Options of the backend that only its machine model reads.
var Options = []option.Option{
	{Name: softwareOption, Default: softwares[0].name, Doc: "whose launches, data loader and updates are modelled: " + softwareNames()},
	{Name: "system", Default: "dgx-a100-80gb", Doc: "whose time and memory are modelled, see harness estimate; none: nothing is"},
}

func softwareNames() string {
	var names []string
	for i := range softwares {
		names = append(names, softwares[i].name)
	}
	return strings.Join(names, ", ")
}

// softwareNamed is the software of a name; "" is the first.
func softwareNamed(name string) (*software, error) {
	if name == "" {
		return &softwares[0], nil
	}
	i := slices.IndexFunc(softwares, func(s software) bool { return s.name == name })
	if i < 0 {
		names := softwareNames()
		return nil, fmt.Errorf("option software is %q%s, want one of %s", name, spelling.Hint(name, strings.Split(names, ", ")), names)
	}
	return &softwares[i], nil
}

// hostSeconds that the host takes for a micro-batch of kernels, and for sequences that the same process loads.
func (s *software) hostSeconds(kernels, sequences, length float64) float64 {
	t := kernels * s.kernelSeconds
	if s.graphSeconds > 0 {
		t = s.graphSeconds
	}
	if s.workers == 0 {
		t += sequences * length / 128 * loadSeconds
	}
	return t
}

// loaderSeconds that a GPU waits for sequences that it works on for a while: for workers that take longer, and for the
// copy.
func (s *software) loaderSeconds(sequences, length, busy float64) float64 {
	t := sequences * length * inputBytes / copyBytesPerSecond
	if s.workers > 0 {
		t += max(0, sequences*length/128*loadSeconds/s.workers-busy)
	}
	return t
}

// updateKernelSeconds is the least time of a kernel of an optimizer: most of them are short.
func (s *software) updateKernelSeconds() float64 {
	if s.graphSeconds > 0 {
		return s.gapSeconds
	}
	return s.kernelSeconds
}
