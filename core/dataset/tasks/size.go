package tasks

import "harness.invalid/core/bert"

// trainingExamples are how many examples the tasks' training files have, as distributed. Sources: Wang et al. 2018
// (GLUE, arXiv:1804.07461) and its data; CLUEbenchmark/CLUE, README; Sun et al. 2020 (C3, arXiv:1904.09679); Shao
// et al. 2018 (DRCD, arXiv:1806.00920); Tjong Kim Sang and De Meulder 2003 (CoNLL-2003, cs/0306050: 14,987
// with 946 lines between articles); Zellers et al. 2018 (SWAG, arXiv:1808.05326).
// SQuAD's are windows of 384 tokens, 128 apart, as google-research/bert,
// run_squad.py, counts them: 88,641 of 87,599 questions, 131,944 of 130,319. Shorter windows are more.
var trainingExamples = map[string]int{
	"squad": 88641, "squad2": 131944,
	"cola": 8551, "sst-2": 67349, "mrpc": 3668, "qqp": 363846, "sts-b": 5749, "mnli": 392702, "mnli-mm": 392702, "qnli": 104743,
	"rte": 2490, "wnli": 635,
	"afqmc": 34334, "tnews": 53360, "iflytek": 12133, "cmnli": 391783, "ocnli": 50437, "wsc": 1244, "csl": 20000, "chid": 577157, "c3": 11869,
	"cmrc2018": 10142, "drcd": 26936, "ner": 14041, "swag": 73546,
	"ax": 392702, // it has none: those of mnli
}

// TrainingSequences is how many sequences an epoch over the task's published training files has; a choice of a
// question is a sequence.
func (t *Task) TrainingSequences() int {
	n := trainingExamples[t.Name]
	if t.Kind == bert.MultipleChoice {
		n *= t.Choices
	}
	return n
}
