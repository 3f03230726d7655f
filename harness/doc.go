// Harness trains the same BERT on several backends, each a plugin in a process of its own, and says whether they
// reach the same accuracy and how long they take.
//
// The main job needs no data and takes a few minutes:
//
//	harness compare --backends ipu,gpu-ref
//
// # Commands
//
// Every command explains itself with --help.
//
//	compare     train a recipe on several backends, with several optimizers and seeds, and compare; --lockstep: find where two diverge
//	verdict     judge scores that others measured by the same rules
//
//	run         train a recipe once on one backend
//	finetune    fine-tune a model on SQuAD, GLUE, CLUE and similar tasks
//	predict     have a fine-tuned model answer a file
//	evaluate    measure a fine-tuned model as the task's own program does
//	tune        search settings of a recipe by quasi-random trials
//
//	report      show runs in a page for browsers, or in a table of any format
//	serve       show runs in a browser, and follow those that go on
//	plot        draw curves of runs as SVG, PNG or PDF
//	runs        list, show, compare, tag, export and remove runs
//	export      write runs for TensorBoard, MLPerf, DLLogger, MLflow, Parquet and benchstat
//
//	recipe      list, show, compare, check and import recipes, and shrink published ones to this machine
//	data        download data sets, prepare text for pre-training, print instances as google-research/bert makes them
//	vocab       learn a WordPiece vocabulary
//	tokenize    turn lines of text into ids
//	convert     convert a model between the formats of Hugging Face, PyTorch and TensorFlow, or take it out of a run
//	inspect     list the tensors of a file: names, types, shapes, statistics
//
//	estimate    model time and memory of a recipe on a named system, without training
//	profile     write the modelled program as a trace, and its pipeline and memory as pictures
//	bench       measure how fast steps, kernels, optimizers and the tokenizer are on this machine
//
//	plugin      list, inspect, verify, write, install and debug backends and optimizers
//	formats     list, show and verify number formats, and policies of them
//
//	check       check runs against a baseline: did something get worse?
//	baseline    keep runs as what later ones are checked against
//	score       score predictions of all tasks, and the runs of a benchmark
//	mlperf      score runs to a target as MLPerf does, with its test of reference convergence points
//	algoperf    score optimizers over several recipes as AlgoPerf does
//
//	version     print version, commit, Go version, kernels and platform
//	completion  shell completion
//
// A backend is NAME or NAME:PRECISION, either with ?OPTION=VALUE&OPTION=VALUE. The others are compared with the
// first one:
//
//	harness compare --backends gpu-ref:fp32,gpu-ref:bf16,ipu:fp16.16 --out runs/formats
//	harness compare --backends gpu-ref:fp32,gpu-ref:bf16,ipu:fp16.16 --out runs/formats --resume --format csv
//	harness report runs/formats -o report.html
//	harness plot runs/formats --quantity f1 -o f1.svg
//	harness run --backend ipu:fp16.32 --optimizer lamb --seed 7 --format json
//	harness recipe show quick --set phases.squad.steps=200
//	harness plugin list
//
// # Output
//
// Results go to standard output, as a table, Markdown, CSV, JSON, HTML or LaTeX (--format); progress and errors go to
// standard error (--quiet: errors only). Each run leaves a folder in --out, runs/RECIPE-TIME by default.
//
// # Exit codes
//
//	0    the command did what it was asked to; a comparison may have any verdict
//	1    something was tried and failed: a plugin breaks its contract, a check found a regression
//	2    an error: wrong usage, bad input, a plugin that died
//	3    a check found no regression, but left a fact undecided
//	130  stopped by Ctrl-C or SIGTERM, after a checkpoint; --resume continues
//
// # Environment
//
//	HARNESS_PLUGIN_PATH  folders with plugins of third parties, before the user's own and $PATH
//	HARNESS_ATTACH       running plugins to use, as harness plugin run --attach printed it
//	HARNESS_DATA         folder for data sets that are downloaded
//	HARNESS_DATA_MIRROR  address to download them from in place of their makers'
//	HARNESS_START_MODELS folder for the models that recipes start from
//	HARNESS_STORE        index of runs: a SQLite file, or postgres://USER@HOST/DATABASE
//	HARNESS_CPU          generic, avx2, avx512, avx512bf16 or amx: the highest level of instructions to use
//
// docs/README.md is the index of the documentation: recipes, plugins, machines, and the design of the program.
package main
