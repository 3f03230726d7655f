package verdict

// FullSize is the modelled time of a training that nobody runs here: the full-size counterpart of the recipe that was
// compared, as published for the machine of a backend.
type FullSize struct {
	Backend   string   `json:"backend"`   // name of the plugin that models it
	Precision string   `json:"precision"` // in which it is modelled
	System    string   `json:"system"`
	Training  string   `json:"training"` // in words, such as BERT-Large
	Recipes   []string `json:"recipes"`  // one after the other
	Hours     float64  `json:"modelled_hours"`
	// Low and High bound the hours, if every recipe is Inside: like those that the machine model was checked on.
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Level  float64 `json:"level"`
	Inside bool    `json:"inside"`
	Why    string  `json:"why"`
}
