package tasks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"harness.invalid/core/jsonerror"
)

// valueOf decodes JSON, which is nil where an object lacks the key. Errors are in JSON's words.
func valueOf(text []byte, v any) error {
	if text == nil {
		return errors.New("there is none")
	}
	return jsonerror.Explain(text, json.Unmarshal(text, v))
}

// objects calls read for the JSON object of each line.
func (r *reader) objects(text []byte, read func(fields map[string]json.RawMessage) error) error {
	for i, line := range bytes.Split(text, []byte("\n")) {
		r.line = i + 1
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var fields map[string]json.RawMessage
		if err := valueOf(line, &fields); err != nil {
			return fmt.Errorf("want a JSON object: %w", err)
		}
		if err := read(fields); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) object(fields map[string]json.RawMessage) error {
	f := &r.Task.format
	var segments []string
	if f.record != nil {
		var err error
		if segments, err = f.record(fields); err != nil {
			return err
		}
	} else {
		for _, names := range [][]string{f.a, f.b} {
			if names == nil {
				continue
			}
			text, ok, err := textOf(fields, names...)
			if err != nil {
				return err
			}
			if !ok {
				return fmt.Errorf("the object has no key %q", names[0])
			}
			segments = append(segments, text)
		}
	}
	label, known, err := textOf(fields, f.label...)
	if err != nil {
		return err
	}
	id, _, err := textOf(fields, "id", "idx")
	if err != nil {
		return err
	}
	return r.add(id, [][]string{segments}, label, known)
}

// textOf is the value of the first key that is there, as text: that of a string or a number, and of a list of
// strings those with a space between them. null counts as missing.
func textOf(fields map[string]json.RawMessage, keys ...string) (text string, ok bool, err error) {
	for _, key := range keys {
		raw, ok := fields[key]
		if !ok || string(raw) == "null" {
			continue
		}
		if json.Unmarshal(raw, &text) == nil {
			return text, true, nil
		}
		var number json.Number
		if json.Unmarshal(raw, &number) == nil {
			return number.String(), true, nil
		}
		var truth bool
		if json.Unmarshal(raw, &truth) == nil {
			return strconv.FormatBool(truth), true, nil
		}
		var list []string
		if json.Unmarshal(raw, &list) == nil {
			return strings.Join(list, " "), true, nil
		}
		return "", false, fmt.Errorf("%s is %.40s, want text, a number or a list of texts", key, raw)
	}
	return "", false, nil
}

func missing(ok bool, key string) error {
	if ok {
		return nil
	}
	return fmt.Errorf("the object has no key %q", key)
}
