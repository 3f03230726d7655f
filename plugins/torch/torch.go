// Package torch carries PyTorch as a plugin: a backend that trains BERT in plain PyTorch operations, on the CPU or
// on an NVIDIA GPU, and the update rules of torch.optim. The plugin itself is written in Python, on the SDK of
// core/plugin/python.
//
// # The backend
//
// harness_torch/model.py implements the model again: it shares no code with core/bert and uses no model library. A
// backend that agrees with it therefore agrees with an independent framework. Batches, schedule and update rules come
// from the host, as for every backend.
//
// Precisions are PyTorch's own. The table in plugins/gpu-ref, which emulates autocast, lists what autocast does to
// each operator:
//
//	fp32   float32 throughout; on a GPU with TF32 off
//	tf32   the same with TF32 on in matrix products: GPU only
//	bf16   torch.autocast to bfloat16 with float32 master weights
//	fp16   torch.autocast to float16 with float32 master weights and torch.cuda.amp.GradScaler: GPU only
//
// On the CPU, parameters and gradients are tensors in the host's memory, without a copy. On a GPU, Commit copies the
// parameters to the device and Step copies the gradients back.
//
// Dropout masks are PyTorch's own and differ from those of the built-in backends. They depend on (seed, step, first
// sample of the micro-batch), so a run is reproducible bit by bit and can be resumed anywhere; other micro-batches have
// other masks. Replicas are computed one after another, as additional micro-batches, and gradients are added in that
// order. Bits depend on the number of threads, the version of PyTorch, and its BLAS.
//
// # Optimizers
//
// torch.NAME is the class NAME of torch.optim, such as torch.AdamW or torch.RAdam. Its options are the numbers and
// switches that its constructor takes, a tuple such as betas as beta1 and beta2, and max_grad_norm, which clips the
// global gradient norm before the update. Weight decay applies to weights and embeddings only, as in BERT. The
// state that a class keeps for a parameter lies in slots of the host, one for each entry except the step count.
// Classes that evaluate the loss again (LBFGS) or need sparse gradients (SparseAdam) are refused.
//
// All other classes of PyTorch 1.13 pass `harness plugin verify` except Adadelta, which is meant for a learning rate of
// 1: at the suite's 0.01, some parameters move by less than float32 resolves. Rprop takes its initial step sizes from
// the learning rate of update 1 and adapts them itself from then on. Each class states the cost of an update: its state
// from what it keeps for small tensors, its arithmetic from PyTorch's documentation.
package torch

import "embed"

// Program is the plugin: its __main__.py takes the arguments `backend`, or `optimizer CLASS`.
//
//go:embed __main__.py harness_torch/*.py
var Program embed.FS

// Optimizers are the classes of torch.optim that were tried, as PyTorch 1.13 has them. Later ones work by their
// names as well.
var Optimizers = []string{"Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"}
