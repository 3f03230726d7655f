package main

import (
	"github.com/spf13/cobra"

	"harness.invalid/harness/conversion"
)

func newConvert() *cobra.Command {
	var c conversion.Conversion
	var quiet bool
	cmd := &cobra.Command{
		Use:   "convert FROM TO",
		Short: "Convert a model between the formats of Hugging Face, PyTorch and TensorFlow",
		Long: `Convert reads a model in any of these formats and writes it in another one, or in another type. FROM is

  a folder of Hugging Face's    config.json with model.safetensors, shards with an index, or pytorch_model.bin
  a folder of Google's          bert_config.json with bert_model.ckpt.index and its data, or the checkpoint's prefix
  a file of tensors             safetensors, or what torch.save wrote, with the configuration beside it or in --config
  a run of harness              or one of its checkpoints

TO is a folder that transformers loads without a warning (or, with --format tensorflow, google-research/bert). Or it is
a file, by its ending .safetensors, .bin, .pt, .pth or .ckpt, which gets the parameters alone, and all tensors as they
are when there is no configuration.

Parameters get today's names, tied ones are stored once, and padded vocabularies get the length that the configuration
says. Optimizer slots that are stored with the model go along: optimizer.safetensors, or NAME/adam_m and NAME/adam_v in
a TensorFlow checkpoint. Convert reports what it leaves out. It reads files of torch.save without running the code
that they may hold.`,
		Example: `  harness convert uncased_L-2_H-128_A-2 bert-tiny
  harness convert pytorch_model.bin bert-base --config config.json --vocab vocab.txt
  harness convert bert-tiny bert-tiny-bf16 --dtype bf16
  harness convert bert-tiny google/bert-tiny --format tensorflow`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			show := newProgress(cmd.ErrOrStderr(), quiet)
			defer show.close()
			observe, done := show.task("convert")
			defer done()
			c.From, c.To, c.Say = args[0], args[1], show.say
			c.Progress = func(now, total int64) error {
				observe(now, total)
				return cmd.Context().Err()
			}
			return c.Run()
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Format, "format", "", "safetensors, pytorch or tensorflow (default: by the ending of TO, else safetensors)")
	f.StringVar(&c.DType, "dtype", "", "fp32, fp16 or bf16 (default: as they are)")
	f.StringVar(&c.Config, "config", "", "configuration, when it is not beside FROM: a config.json or bert_config.json")
	f.StringVar(&c.Vocab, "vocab", "", "vocabulary, when it is not beside FROM: one token a line")
	f.BoolVar(&c.Cased, "cased", false, "say in the tokenizer's files that case and accents are kept")
	f.StringVar(&c.Shard, "shard-size", "", "greatest size of a file of safetensors, such as 5GB (default: one file)")
	f.BoolVar(&quiet, "quiet", false, "errors only")
	return cmd
}
