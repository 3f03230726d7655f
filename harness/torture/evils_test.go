//go:build unix

package torture

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"net"
	"os"
	"strings"
	"time"

	"harness.invalid/core/backend"
	"harness.invalid/core/bert"
	"harness.invalid/core/optimizer"
	"harness.invalid/core/option"
	"harness.invalid/core/plugin"
	"harness.invalid/core/tensor"
)

// hostiles are the hostile plugins by name.
var hostiles = allHostiles()

func allHostiles() map[string]hostile {
	all := map[string]hostile{}
	for _, some := range []map[string]hostile{starters(), dead(plugin.Backend), dead(plugin.Optimizer), liars(), lazy()} {
		maps.Copy(all, some)
	}
	return all
}

// starters do not get as far as a run.
func starters() map[string]hostile {
	of := func(play func(), want string) hostile {
		return hostile{play: play, kind: plugin.Backend, want: want, timeouts: patient}
	}
	slow := func(play func(), want string) hostile {
		h := of(play, want)
		h.timeouts = hurried
		h.timeouts.Start = 2 * time.Second
		return h
	}
	return map[string]hostile{
		"start-exit-4":    of(func() { os.Exit(4) }, "exit status 4"),
		"start-exit-0":    of(func() {}, "it ended before it said hello"),
		"start-greets":    of(handshake("Hello, world!"), "instead of the handshake"),
		"start-binary":    of(handshake("\x00\xff\x1b[2J|\x80|||"), ""),
		"start-version-7": of(wire(7, nil, 1), "protocol version 7"),
		"start-core-9":    of(handshake("9|1|unix|/nowhere|grpc|"), ""),
		"start-no-socket": slow(handshake("1|1|unix|/nowhere/socket|grpc|"), ""),
		"start-no-port":   slow(handshake("1|1|tcp|127.0.0.1:1|grpc|"), ""),
		"start-netrpc":    slow(handshake("1|1|unix|/nowhere/socket|netrpc|"), ""),
		"start-address":   slow(handshake("1|1|carrier-pigeon|coop|grpc|"), ""),
		"start-mute":      slow(func() { time.Sleep(time.Minute) }, "no answer within"),
		"start-floods": slow(func() {
			_ = flood()
			time.Sleep(time.Minute)
		}, "no answer within"),
		"start-endless-line": slow(func() {
			for range 256 {
				fmt.Print(strings.Repeat("z", 1<<16))
			}
			time.Sleep(time.Minute)
		}, ""),
		"start-closes-stdout": slow(func() {
			_ = os.Stdout.Close()
			time.Sleep(time.Minute)
		}, ""),
		"start-leaves-child":  of(func() { _ = child(false) }, "it ended before it said hello"),
		"start-silent-socket": slow(listener(func(net.Conn) {}), ""),
		"start-hangs-up":      slow(listener(func(c net.Conn) { _ = c.Close() }), ""),
		"start-noise": slow(listener(func(c net.Conn) {
			_, _ = c.Write([]byte(strings.Repeat("\x16\x03\x01\xff", 1<<14)))
		}), ""),
		"start-no-certificate": slow(func() {
			_ = os.Unsetenv("PLUGIN_CLIENT_CERT")
			wire(plugin.ProtocolVersion, nil, 1)()
		}, ""),
		"start-wrong-kind":   of(evil{}.optimizer(), "it is a plugin, but no backend"),
		"wire-garbage":       of(wire(plugin.ProtocolVersion, []byte("\xff\xff\xff\xff\xff garbage"), 1), "backend wire-garbage"),
		"wire-empty":         of(wire(plugin.ProtocolVersion, nil, 1), "backend wire-empty"),
		"wire-no-answer":     of(wire(plugin.ProtocolVersion, nil, 0), "backend wire-no-answer"),
		"wire-answers-twice": of(wire(plugin.ProtocolVersion, nil, 2), "backend wire-answers-twice"),
		"wire-huge":          of(wire(plugin.ProtocolVersion, make([]byte, 100<<20), 1), "backend wire-huge"),
	}
}

// dead do one bad thing at one of their calls.
func dead(kind plugin.Kind) map[string]hostile {
	all := map[string]hostile{}
	put := func(call, deed string, n int, do func() error, h hostile) {
		e := evil{instead: at(call, n, do)}
		h.kind = kind
		if h.play = e.backend(); kind == plugin.Optimizer {
			h.play = e.optimizer()
		}
		if h.timeouts == (hostile{}).timeouts {
			h.timeouts = patient
		}
		all[fmt.Sprint(kind, "-", deed, "-", call)] = h
	}
	calls := []string{"open", "step", "commit", "evaluate", "save", "close"}
	if kind == plugin.Optimizer {
		calls = []string{"slots", "open", "step", "close"}
	}
	for _, call := range calls {
		put(call, "dies", 1, die, hostile{})
		put(call, "hangs", 1, hang, hostile{timeouts: hurried})
	}
	put("step", "exits", 1, exit0, hostile{want: "the plugin died"})
	put("step", "panics", 1, panics, hostile{want: "panic: tile 311 is on fire"})
	put("step", "escapes", 1, control, hostile{want: "tile 311"})
	put("step", "tells-a-story", 1, long1MB, hostile{want: "tile 311 is on fire"})
	put("step", "is-late", 1, late, hostile{timeouts: hurried, want: "no answer within"})
	put("step", "floods", 1, flood, hostile{})
	put("step", "forks", 1, forks, hostile{want: "the plugin died"})
	put("step", "leaves-escapee", 1, func() error {
		if err := child(true); err != nil {
			return err
		}
		return die()
	}, hostile{want: "the plugin died"})
	put("describe", "panics", 2, panics, hostile{})
	return all
}

// liars are backends that answer what is not so.
func liars() map[string]hostile {
	of := func(e evil, want string, lies bool) hostile {
		return hostile{play: e.backend(), kind: plugin.Backend, want: want, lies: lies, timeouts: patient}
	}
	step := func(f func(m backend.Memory, r *backend.StepResult), want string) hostile {
		return of(evil{step: f}, want, true)
	}
	nan := float32(math.NaN())
	type batches = iter.Seq2[*bert.Batch, error]
	return map[string]hostile{
		"lies-nan-gradient": step(func(m backend.Memory, r *backend.StepResult) { m.Grads[1], r.Finite = nan, true }, "NaN in the gradients"),
		"lies-inf-gradient": step(func(m backend.Memory, r *backend.StepResult) {
			m.Grads[1], r.Finite = float32(math.Inf(1)), true
		}, "in the gradients"),
		"lies-nan-loss": step(func(_ backend.Memory, r *backend.StepResult) { r.Losses.MaskedLM.Sum = math.NaN() }, "a loss of NaN"),
		"lies-weight":   step(func(_ backend.Memory, r *backend.StepResult) { r.Losses.MaskedLM.Weight = -3 }, "masked tokens of weight"),
		"lies-norm":     step(func(_ backend.Memory, r *backend.StepResult) { r.GradientNorm, r.Finite = 1e-12, true }, ""),
		"lies-no-gradient": step(func(m backend.Memory, r *backend.StepResult) {
			clear(m.Grads)
			r.Finite = true
		}, "the gradients of the step before, or none"),
		"lies-parameters": step(func(m backend.Memory, _ *backend.StepResult) {
			for i := range m.Params {
				m.Params[i]++
			}
		}, "it changed the parameters"),
		"lies-counts": step(func(_ backend.Memory, r *backend.StepResult) {
			r.Overflows, r.Invalid, r.LossScale = -1, math.MinInt64, -4
		}, "it reports -1 overflows"),
		"lies-times": step(func(_ backend.Memory, r *backend.StepResult) {
			r.Phases = []backend.Phase{{Name: "a", Seconds: -1e300}, {Name: "b/../../c", Seconds: math.NaN()}}
		}, "seconds for a, want a time"),
		"lies-schedule": step(func(_ backend.Memory, r *backend.StepResult) {
			r.Schedule = &backend.Schedule{Name: "../../schedule", Fill: -7, Drain: math.MinInt32, Cycles: [][]int{{-9}, {}, {1 << 30}}}
		}, ""),
		"lies-ignores-batches": of(evil{batches: func(b batches) batches {
			return func(yield func(*bert.Batch, error) bool) {
				for first, err := range b {
					_ = yield(first, err)
					return
				}
			}
		}}, "", true),
		"lies-outputs-shape": of(evil{outputs: func(o backend.Outputs, yield func(backend.Outputs) error) error {
			for name := range o {
				o[name] = backend.Output{Shape: tensor.Shape{-2, 3}, Values: make([]float32, 6)}
			}
			return yield(o)
		}}, "", false),
		"lies-outputs-missing": of(evil{outputs: func(o backend.Outputs, yield func(backend.Outputs) error) error {
			clear(o)
			return yield(o)
		}}, "", false),
		"lies-outputs-twice": of(evil{outputs: func(o backend.Outputs, yield func(backend.Outputs) error) error {
			if err := yield(o); err != nil {
				return err
			}
			return yield(o)
		}}, "", false),
		"lies-outputs-huge": of(evil{outputs: func(o backend.Outputs, yield func(backend.Outputs) error) error {
			o["more"] = backend.Output{Shape: tensor.Shape{16 << 20}, Values: make([]float32, 16<<20)}
			return yield(o)
		}}, "", false),
		"lies-state-huge":    of(evil{state: func([]byte) []byte { return make([]byte, 80<<20) }}, "", true),
		"lies-state-garbage": of(evil{state: func([]byte) []byte { return []byte("\xff\x00garbage") }}, "", true),
		"lies-info": of(evil{info: func(i *backend.Info) {
			i.Name, i.Version, i.Doc, i.Precisions = "", "\x1b[2J", strings.Repeat("x", 1<<20), nil
			i.Options = append(i.Options, make([]option.Option, 10_000)...)
		}}, "", false),
	}
}

// lazy are optimizers that do what is not an update.
func lazy() map[string]hostile {
	of := func(e evil, want string) hostile {
		return hostile{play: e.optimizer(), kind: plugin.Optimizer, want: want, lies: true, timeouts: patient}
	}
	update := func(f func(m optimizer.Memory, r *optimizer.StepResult), want string) hostile {
		return of(evil{update: f}, want)
	}
	return map[string]hostile{
		"lazy-nan": update(func(m optimizer.Memory, _ *optimizer.StepResult) { m.Params[0] = float32(math.NaN()) }, "NaN in the parameters"),
		"lazy-slot": update(func(m optimizer.Memory, _ *optimizer.StepResult) {
			for i := range m.Slots[1] {
				m.Slots[1][i] = float32(math.Inf(-1))
			}
		}, "in slot 2 of"),
		"lazy-norm":        update(func(_ optimizer.Memory, r *optimizer.StepResult) { r.GradientNorm *= 1e-6 }, "it reports a gradient norm"),
		"lazy-norm-nan":    update(func(_ optimizer.Memory, r *optimizer.StepResult) { r.GradientNorm = math.NaN() }, "norm"),
		"lazy-slots-twice": of(evil{slots: func([]string) []string { return []string{"m", "m"} }}, `"m"`),
		"lazy-slots-none":  of(evil{slots: func([]string) []string { return nil }}, ""),
		"lazy-slots-path":  of(evil{slots: func([]string) []string { return []string{"../../m", "v"} }}, ""),
		"lazy-slots-many": of(evil{slots: func([]string) []string {
			names := make([]string, 1_000_000)
			for i := range names {
				names[i] = fmt.Sprint("slot", i)
			}
			return names
		}}, ""),
		"lazy-info": of(evil{rule: func(i *optimizer.Info) { i.Name, i.Version, i.Probes, i.Averages = "\x1b[2J", "\x00", true, true }}, ""),
	}
}
