// Package torch carries PyTorch as a plugin: a backend that trains BERT in plain PyTorch operations, on the CPU or on an NVIDIA GPU, and the update
// rules of torch.optim. The plugin itself is written in Python, on the SDK of core/plugin/python.
//
// # The backend
//
// The model is written once more, in harness_torch/model.py: no code is shared with core/bert, and no model library is used. So a backend that agrees
// with it agrees with a framework that nobody here wrote. Batches, schedule and update rules are the host's, as for every backend.
//
// Precisions are those of PyTorch itself. What autocast does to which operator is the table of plugins/gpu-ref, which emulates it:
//
//	fp32   float32 throughout; on a GPU with TF32 off
//	tf32   the same with TF32 on in matrix products: GPU only
//	bf16   torch.autocast to bfloat16 with float32 master weights
//	fp16   torch.autocast to float16 with float32 master weights and torch.cuda.amp.GradScaler: GPU only
//
// On the CPU parameters and gradients are tensors over the host's memory, without a copy. On a GPU they are copied there by Commit, and gradients
// back by Step.
//
// Dropout masks are PyTorch's own, other ones than those of the built-in backends. They are drawn from (seed, step, first sample of the micro-batch), so a
// run repeats itself bit by bit and may be resumed anywhere; another cut into micro-batches draws others. Replicas are computed one after the other, as further
// micro-batches, and gradients are added up in their order. Bits depend on the number of threads, on the version of PyTorch and on its BLAS.
//
// # Optimizers
//
// torch.NAME is the class NAME of torch.optim, such as torch.AdamW or torch.RAdam. Its options are the numbers and switches that its constructor takes, a
// tuple such as betas as beta1 and beta2, and max_grad_norm, which clips the global gradient norm before the update. Weight decay applies to weights and
// embeddings only, as in BERT. The state that a class keeps for a parameter lies in slots of the host, one for each entry but the count of
// steps. Classes that evaluate the loss again (LBFGS) or want sparse gradients (SparseAdam) are refused.
//
// All others of PyTorch 1.13 pass `harness plugin verify` but Adadelta, made for a learning rate of 1: at the 0.01 of the suite some parameters move by less
// than float32 shows. Rprop takes its first step sizes from the rate of update 1 and goes by its own from there on.
package torch

import "embed"

// Program is the plugin: its __main__.py takes the arguments `backend`, or `optimizer CLASS`.
//
//go:embed __main__.py harness_torch/*.py
var Program embed.FS

// Optimizers are the classes of torch.optim that were tried, as PyTorch 1.13 has them. Later ones work by their names as well.
var Optimizers = []string{"Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"}
