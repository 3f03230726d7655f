// Package jsonerror puts the errors of encoding/json into the words of JSON, for people who wrote a file and have never
// seen the program that reads it.
package jsonerror

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Explain says what is wrong with a text that json.Unmarshal, or a decoder over it, did not take: the field and the kind
// of value that it has and should have, the line and column where the text is no JSON, or that it ends too soon. Other
// errors stay as they are.
func Explain(text []byte, err error) error {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // of a decoder
		return errors.New("the text ends in the middle of the JSON")
	case errors.As(err, &kind):
		field := kind.Field
		if field == "" {
			field = "the value"
		}
		return fmt.Errorf("%s is %s, want %s", field, seen(kind.Value), wanted(kind.Type))
	case errors.As(err, &syntax):
		if strings.HasPrefix(syntax.Error(), "unexpected end") {
			return errors.New("the text ends in the middle of the JSON")
		}
		before := text[:min(max(int(syntax.Offset)-1, 0), len(text))]
		line, column := bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n')
		return fmt.Errorf("line %d, column %d: no JSON: %w", line, column, err)
	}
	return err
}

// seen is the kind of a value as encoding/json names it, with its article.
func seen(value string) string {
	switch value {
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "bool":
		return "true or false"
	case "string", "number":
		return "a " + value
	}
	return "the " + value // such as: number 1.5
}

// wanted is what a type reads.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number of 0 or more"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Pointer:
		return wanted(t.Elem())
	}
	return "an object"
}
