// Package secret keeps passwords out of what people and files get to see. An address that may hold one goes in; what may
// be shown of it comes out.
package secret

import (
	"net/url"
	"strings"
)

// hidden stands for what is not shown.
const hidden = "***"

// Location is what may be shown of an address, of a database or of a server: scheme, user, host and path. Passwords
// stand before the host or among the parameters, which are left out. Any other text, such as a path, is shown as it is.
func Location(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != strings.ToLower(scheme) {
		// Whatever of it is the password: what follows the last @ is not.
		host, _, _ := strings.Cut(rest[strings.LastIndexByte(rest, '@')+1:], "?")
		return scheme + "://" + hidden + "@" + host
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if name := u.User.Username(); name != "" {
		shown.User = url.User(name)
	}
	return shown.String()
}

// Hide is err without what an address has to hide. Errors of drivers and of the network quote it, in whole or in part.
func Hide(err error, text string) error {
	if err == nil || !strings.Contains(text, "://") {
		return err
	}
	return &without{err, parts(text)}
}

// parts are the texts to hide of an address, the longest first.
func parts(text string) []string {
	hide := []string{text}
	add := func(word string) {
		if word != "" {
			hide = append(hide, word, url.QueryEscape(word), url.PathEscape(word))
		}
	}
	_, rest, _ := strings.Cut(text, "://")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		_, password, _ := strings.Cut(rest[:at], ":")
		add(password) // as it stands there
	}
	_, query, _ := strings.Cut(rest, "?")
	for field := range strings.SplitSeq(query, "&") {
		if name, value, _ := strings.Cut(field, "="); strings.Contains(strings.ToLower(name), "pass") {
			add(value)
			if decoded, err := url.QueryUnescape(value); err == nil {
				add(decoded)
			}
		}
	}
	if u, err := url.Parse(text); err == nil {
		password, _ := u.User.Password()
		add(password)
	}
	return hide
}

// without is an error some texts of which are not shown.
type without struct {
	err  error
	hide []string
}

// Error implements error.
func (w *without) Error() string {
	text := w.err.Error()
	for i, word := range w.hide {
		by := hidden
		if i == 0 {
			by = Location(word)
		}
		text = strings.ReplaceAll(text, word, by)
	}
	return text
}

func (w *without) Unwrap() error { return w.err }
