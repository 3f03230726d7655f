package jsonerror_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"harness.invalid/core/jsonerror"
)

func TestExplain(t *testing.T) {
	type shape struct {
		Size    int               `json:"size"`
		Steps   uint64            `json:"steps"`
		Rate    float64           `json:"rate"`
		Tied    *bool             `json:"tied"`
		Name    string            `json:"name"`
		Layers  []string          `json:"layers"`
		Labels  map[string]string `json:"labels"`
		Dropout struct {
			Rate float32 `json:"rate"`
		} `json:"dropout"`
	}
	for text, want := range map[string]string{
		`{"size": "big"}`:               "size is a string, want a whole number",
		`{"size": 1.5}`:                 "size is the number 1.5, want a whole number",
		`{"steps": -1}`:                 "steps is the number -1, want a whole number of 0 or more",
		`{"rate": true}`:                "rate is true or false, want a number",
		`{"tied": 1}`:                   "tied is a number, want true or false",
		`{"name": [1]}`:                 "name is a list, want a string",
		`{"layers": {}}`:                "layers is an object, want a list",
		`{"labels": "x"}`:               "labels is a string, want an object",
		`{"dropout": {"rate": "half"}}`: "dropout.rate is a string, want a number",
		`[1]`:                           "the value is a list, want an object",
		"{\"size\": 1,\n \"rate\": x}":  "line 2, column 10: no JSON: invalid character 'x' looking for beginning of value",
		"{\"size\": 1,\n":               "the text ends in the middle of the JSON",
		"":                              "the text ends in the middle of the JSON",
	} {
		err := json.Unmarshal([]byte(text), new(shape))
		if err == nil {
			t.Fatalf("%s is read", text)
		}
		if got := jsonerror.Explain([]byte(text), err).Error(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	err := json.NewDecoder(strings.NewReader("{")).Decode(new(shape))
	if got := jsonerror.Explain([]byte("{"), err).Error(); got != "the text ends in the middle of the JSON" {
		t.Errorf("a decoder's error: %s", got)
	}
	if other := errors.New("a disk is gone"); jsonerror.Explain(nil, other) != other {
		t.Error("an error of another kind has changed")
	}
}
