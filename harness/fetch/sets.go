package fetch

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"harness.invalid/core/bounded"
	"harness.invalid/core/spelling"
)

// Set is a data set with the files that it is made of.
type Set struct {
	Name    string
	Doc     string
	Home    string // page of its makers
	License string
	Files   []File
}

// File is one of them, at the address that its makers give.
type File struct {
	URL  string
	Name string // in the set's folder, with slashes
	// SHA256 of its content; empty: not known, and then the sum of the first download is written down and held against
	// later ones.
	SHA256 string
	// Sums is the address of a list of sums that the makers publish, in which Name has a date in place of "latest";
	// empty: none.
	Sums string
	// Unpack is the folder into which a zip archive is unpacked; empty: not an archive. "." is the set's folder.
	Unpack string
	// Most is the size in bytes that is downloaded at most; 0: 4 GiB.
	Most int64
}

const (
	mostDownload = 4 * bounded.GiB
	mostDump     = 256 * bounded.GiB // of a Wikipedia, of which the English one has about 25
)

const (
	glue = "https://dl.fbaipublicfiles.com/glue/data/"
	msr  = "https://dl.fbaipublicfiles.com/senteval/senteval_data/"
	clue = "https://storage.googleapis.com/cluebenchmark/tasks/"
	hub  = "https://huggingface.co/google-bert/"
)

// Names lists the data sets.
func Names() (names []string) {
	for _, s := range Sets("en") {
		names = append(names, s.Name)
	}
	return names
}

// Named returns the data set of a name. language is that of Wikipedia; see Sets.
func Named(name, language string) (Set, error) {
	for _, s := range Sets(language) {
		if s.Name == name {
			return s, nil
		}
	}
	return Set{}, fmt.Errorf("no data set is named %q%s (known: %s)", name, spelling.Hint(name, Names()), strings.Join(Names(), ", "))
}

// CheckLanguage reports what can't be the language of a Wikipedia.
func CheckLanguage(language string) error {
	if !languagePattern.MatchString(language) {
		return errors.New("want the name of a Wikipedia such as en, simple or zh")
	}
	return nil
}

var languagePattern = regexp.MustCompile(`^[a-z][a-z-]{1,15}$`)

// CheckMirror reports what can't be a Fetcher's Mirror.
func CheckMirror(mirror string) error {
	if u, err := url.Parse(mirror); mirror != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		return errors.New("want an address such as https://mirror.example.org/data")
	}
	return nil
}

// Folder is where data sets are kept: the given folder, or that of $HARNESS_DATA, or one in the user's folder for
// caches.
func Folder(given string) (string, error) {
	if dir := cmp.Or(given, os.Getenv("HARNESS_DATA")); dir != "" {
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "harness", "data"), err
}

// Sets are all data sets. language is that of Wikipedia, as in the name of its dump: en, simple, zh.
func Sets(language string) []Set {
	dump := "https://dumps.wikimedia.org/" + language + "wiki/latest/" + language + "wiki-latest-"
	return []Set{
		{
			Name: "squad", Doc: "SQuAD v1.1 and v2.0, questions about Wikipedia",
			Home: "https://rajpurkar.github.io/SQuAD-explorer/", License: "CC BY-SA 4.0",
			Files: []File{
				{URL: "https://rajpurkar.github.io/SQuAD-explorer/dataset/train-v1.1.json", Name: "train-v1.1.json"},
				{URL: "https://rajpurkar.github.io/SQuAD-explorer/dataset/dev-v1.1.json", Name: "dev-v1.1.json",
					SHA256: "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9"},
				{URL: "https://rajpurkar.github.io/SQuAD-explorer/dataset/train-v2.0.json", Name: "train-v2.0.json"},
				{URL: "https://rajpurkar.github.io/SQuAD-explorer/dataset/dev-v2.0.json", Name: "dev-v2.0.json"},
			},
		},
		{
			Name: "glue", Doc: "GLUE's nine tasks", Home: "https://gluebenchmark.com/tasks",
			License: "each task has its own, most are for research; MRPC is Microsoft's, QQP Quora's: read the page before any other use",
			Files: []File{
				archive(glue+"CoLA.zip", "."), archive(glue+"SST-2.zip", "."), archive(glue+"QQP-clean.zip", "."), archive(glue+"STS-B.zip", "."),
				archive(glue+"MNLI.zip", "."), archive(glue+"QNLIv2.zip", "."), archive(glue+"RTE.zip", "."), archive(glue+"WNLI.zip", "."),
				{URL: msr + "msr_paraphrase_train.txt", Name: "MRPC/msr_paraphrase_train.txt"},
				{URL: msr + "msr_paraphrase_test.txt", Name: "MRPC/msr_paraphrase_test.txt"},
				{URL: glue + "mrpc_dev_ids.tsv", Name: "MRPC/mrpc_dev_ids.tsv"},
			},
		},
		{
			Name: "clue", Doc: "CLUE's tasks, Chinese", Home: "https://www.cluebenchmarks.com/",
			License: "each task has its own; for research. CMRC2018 and DRCD are CC BY-SA",
			Files: []File{
				archive(clue+"afqmc_public.zip", "afqmc"), archive(clue+"tnews_public.zip", "tnews"), archive(clue+"iflytek_public.zip", "iflytek"),
				archive(clue+"cmnli_public.zip", "cmnli"), archive(clue+"ocnli_public.zip", "ocnli"), archive(clue+"cluewsc2020_public.zip", "wsc"),
				archive(clue+"csl_public.zip", "csl"), archive(clue+"chid_public.zip", "chid"), archive(clue+"c3_public.zip", "c3"),
				archive(clue+"cmrc2018_public.zip", "cmrc2018"), archive(clue+"drcd_public.zip", "drcd"),
			},
		},
		{
			Name: "wikipedia", Doc: "a dump of Wikipedia's articles, as XML", Home: "https://dumps.wikimedia.org/",
			License: "CC BY-SA 4.0 and GFDL; name the authors by a link to the article",
			Files: []File{
				{URL: dump + "pages-articles.xml.bz2", Name: language + "wiki-latest-pages-articles.xml.bz2", Sums: dump + "sha1sums.txt",
					Most: mostDump},
			},
		},
		{
			Name: "vocab", Doc: "the vocabularies of BERT: uncased, cased, Chinese",
			Home: "https://github.com/google-research/bert", License: "Apache-2.0",
			Files: []File{
				{URL: hub + "bert-base-uncased/resolve/main/vocab.txt", Name: "bert-base-uncased-vocab.txt",
					SHA256: "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"},
				{URL: hub + "bert-base-cased/resolve/main/vocab.txt", Name: "bert-base-cased-vocab.txt",
					SHA256: "eeaa9875b23b04b4c54ef759d03db9d1ba1554838f8fb26c5d96fa551df93d02"},
				{URL: hub + "bert-base-chinese/resolve/main/vocab.txt", Name: "bert-base-chinese-vocab.txt",
					SHA256: "45bbac6b341c319adc98a532532882e91a9cefc0329aa57bac9ae761c27b291c"},
			},
		},
		model("bert-base-uncased", "86b5e0934494bd15c9632b12f734a8a67f723594", map[string]string{
			"config.json":           "7160e1553ad2ca51d8c1cb066be533db31826e12d173824c1bb0cb1a4f187d20",
			"model.safetensors":     "68d45e234eb4a928074dfd868cead0219ab85354cc53d20e772753c6bb9169d3",
			"tokenizer_config.json": "a025160ef0431f1a392f6f050c1310f4c5d9fb6f275932dbccba73c4d214bf10",
			"vocab.txt":             "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
		}),
		model("bert-base-cased", "main", map[string]string{
			"vocab.txt": "eeaa9875b23b04b4c54ef759d03db9d1ba1554838f8fb26c5d96fa551df93d02",
		}),
		model("bert-base-chinese", "main", map[string]string{
			"vocab.txt": "45bbac6b341c319adc98a532532882e91a9cefc0329aa57bac9ae761c27b291c",
		}),
	}
}

// model is a published BERT as a folder of Hugging Face, of a revision, with the SHA-256 of those files where it is known.
func model(name, revision string, sums map[string]string) Set {
	s := Set{Name: name, Doc: "a model, as Hugging Face's folder", Home: hub + name, License: "Apache-2.0"}
	for _, file := range []string{"config.json", "tokenizer_config.json", "vocab.txt", "model.safetensors"} {
		s.Files = append(s.Files, File{URL: hub + name + "/resolve/" + revision + "/" + file, Name: file, SHA256: sums[file]})
	}
	return s
}

// archive is a zip that is unpacked into a folder.
func archive(url, folder string) File {
	return File{URL: url, Name: url[strings.LastIndexByte(url, '/')+1:], Unpack: folder}
}
