// Package optimizers_test holds the rules that no golden file has against the formulas of their papers, written
// down once more in float64 over gonum's matrices.
package optimizers_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"harness.invalid/core/optimizer"
	"harness.invalid/core/optimizer/optimizertest"
	"harness.invalid/core/tensor"
	"harness.invalid/plugins/optimizers/adafactor"
	"harness.invalid/plugins/optimizers/lion"
	"harness.invalid/plugins/optimizers/muon"
	"harness.invalid/plugins/optimizers/nadamw"
	"harness.invalid/plugins/optimizers/sam"
	"harness.invalid/plugins/optimizers/schedulefree"
	"harness.invalid/plugins/optimizers/shampoo"
)

const (
	steps = 5
	rate  = 0.02
)

// state is one tensor in float64, as a matrix (a vector is a row), with what a rule keeps for it.
type state struct {
	tensor.Tensor
	p       *mat.Dense
	m, v    *mat.Dense
	row     []float64
	columns []float64
}

func (s *state) decay(lambda float64) float64 {
	if optimizer.Decays(s.Kind) {
		return lambda
	}
	return 0
}

// twins are the rules of the papers: what one tensor's update is at step t with the gradient g, already clipped.
var twins = []struct {
	name    string
	rule    optimizer.Optimizer
	options map[string]string
	update  func(s *state, g *mat.Dense, t float64)
}{
	{"lion", lion.New(), map[string]string{"weight_decay": "0.1"}, func(s *state, g *mat.Dense, _ float64) {
		each(s, g, func(i, j int, p, g float64) float64 {
			m := s.m.At(i, j)
			c := 0.9*m + 0.1*g
			s.m.Set(i, j, 0.99*m+0.01*g)
			sign := 0.0
			if c != 0 {
				sign = math.Copysign(1, c)
			}
			return p - rate*(sign+s.decay(0.1)*p)
		})
	}},
	{"nadamw", nadamw.New(), map[string]string{"weight_decay": "0.1", "max_grad_norm": "0.5"}, func(s *state, g *mat.Dense, t float64) {
		each(s, g, func(i, j int, p, g float64) float64 {
			m, v := 0.9*s.m.At(i, j)+0.1*g, 0.999*s.v.At(i, j)+0.001*g*g
			s.m.Set(i, j, m)
			s.v.Set(i, j, v)
			top := 0.9*m/(1-math.Pow(0.9, t+1)) + 0.1*g/(1-math.Pow(0.9, t))
			return p - rate*(top/(math.Sqrt(v/(1-math.Pow(0.999, t)))+1e-8)+s.decay(0.1)*p)
		})
	}},
	{"adafactor", adafactor.New(), map[string]string{"weight_decay": "0.1"}, adafactorTwin(0)},
	{"adafactor with momentum", adafactor.New(), map[string]string{"weight_decay": "0.1", "beta1": "0.9"}, adafactorTwin(0.9)},
	{"muon", muon.New(), map[string]string{"weight_decay": "0.1"}, muonTwin},
}

// adafactorTwin is algorithm 4 with sums in place of means, as the paper has it.
func adafactorTwin(beta1 float64) func(s *state, g *mat.Dense, t float64) {
	return func(s *state, g *mat.Dense, t float64) {
		r, c := s.p.Dims()
		beta := 1 - math.Pow(t, -0.8)
		scale := max(1e-3, mat.Norm(s.p, 2)/math.Sqrt(float64(r*c)))
		u := mat.NewDense(r, c, nil)
		if r > 1 && r+c <= r*c {
			if s.row == nil {
				s.row, s.columns = make([]float64, r), make([]float64, c)
			}
			rows, columns := make([]float64, r), make([]float64, c)
			for i := range r {
				for j := range c {
					square := g.At(i, j)*g.At(i, j) + 1e-30
					rows[i] += square
					columns[j] += square
				}
			}
			total := 0.0
			for i := range r {
				s.row[i] = beta*s.row[i] + (1-beta)*rows[i]
				total += s.row[i]
			}
			for j := range c {
				s.columns[j] = beta*s.columns[j] + (1-beta)*columns[j]
			}
			u.Apply(func(i, j int, x float64) float64 { return x / math.Sqrt(s.row[i]*s.columns[j]/total) }, g)
		} else {
			each(&state{p: u}, g, func(i, j int, _, g float64) float64 {
				v := beta*s.v.At(i, j) + (1-beta)*(g*g+1e-30)
				s.v.Set(i, j, v)
				return g / math.Sqrt(v)
			})
		}
		u.Scale(1/max(1, mat.Norm(u, 2)/math.Sqrt(float64(r*c))), u)
		if beta1 > 0 {
			s.m.Scale(beta1, s.m)
			u.Scale(1-beta1, u)
			s.m.Add(s.m, u)
			u.Copy(s.m)
		}
		each(s, u, func(_, _ int, p, u float64) float64 { return p - rate*scale*u - rate*s.decay(0.1)*p })
	}
}

// muonTwin lets the polynomial work on singular values.
func muonTwin(s *state, g *mat.Dense, t float64) {
	r, c := s.p.Dims()
	if s.Kind != tensor.Weight || r < 16 || c < 16 {
		each(s, g, func(i, j int, p, g float64) float64 {
			m, v := 0.9*s.m.At(i, j)+0.1*g, 0.95*s.v.At(i, j)+0.05*g*g
			s.m.Set(i, j, m)
			s.v.Set(i, j, v)
			return p - rate*(m/(1-math.Pow(0.9, t))/(math.Sqrt(v/(1-math.Pow(0.95, t)))+1e-8)+s.decay(0.1)*p)
		})
		return
	}
	each(&state{p: s.m}, g, func(_, _ int, m, g float64) float64 { return 0.95*m + 0.05*g })
	x := mat.NewDense(r, c, nil)
	x.Apply(func(i, j int, g float64) float64 { return 0.05*g + 0.95*s.m.At(i, j) }, g)
	var svd mat.SVD
	if !svd.Factorize(x, mat.SVDThin) {
		panic("no singular values")
	}
	values := svd.Values(nil)
	norm := mat.Norm(x, 2)
	for i, v := range values {
		v /= norm
		for range 5 {
			v = 3.4445*v - 4.7750*v*v*v + 2.0315*v*v*v*v*v
		}
		values[i] = v
	}
	var u, v, us, o mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	us.Mul(&u, mat.NewDiagDense(len(values), values))
	o.Mul(&us, v.T())
	each(s, &o, func(_, _ int, p, o float64) float64 {
		return p - rate*(0.2*math.Sqrt(float64(max(r, c)))*o+s.decay(0.1)*p)
	})
}

// each replaces every element of s.p by f of it and of the element of g.
func each(s *state, g *mat.Dense, f func(i, j int, p, g float64) float64) {
	s.p.Apply(func(i, j int, p float64) float64 { return f(i, j, p, g.At(i, j)) }, s.p)
}

func layout(t *testing.T) *tensor.Layout {
	l, err := tensor.NewLayout(
		tensor.Tensor{Name: "wide", Shape: tensor.Shape{20, 33}, Kind: tensor.Weight},
		tensor.Tensor{Name: "tall", Shape: tensor.Shape{150, 17}, Kind: tensor.Weight},
		tensor.Tensor{Name: "embeddings", Shape: tensor.Shape{40, 16}, Kind: tensor.Embedding},
		tensor.Tensor{Name: "head", Shape: tensor.Shape{2, 33}, Kind: tensor.Weight},
		tensor.Tensor{Name: "bias", Shape: tensor.Shape{33}, Kind: tensor.Bias},
		tensor.Tensor{Name: "norm", Shape: tensor.Shape{17}, Kind: tensor.NormScale},
	)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// gradient draws the gradient of a step; step 0 is the initial parameters.
func gradient(l *tensor.Layout, section []float32, step int) {
	r := rand.New(rand.NewPCG(7, uint64(step)))
	for _, t := range l.Tensors() {
		for i := range t.Of(section) {
			section[t.Offset+i] = float32(0.1 * r.NormFloat64())
		}
	}
}

func matrix(t tensor.Tensor, section []float32) *mat.Dense {
	rows := 1
	if len(t.Shape) == 2 {
		rows = t.Shape[0]
	}
	d := mat.NewDense(rows, t.Len()/rows, nil)
	for i, x := range t.Of(section) {
		d.Set(i/(t.Len()/rows), i%(t.Len()/rows), float64(x))
	}
	return d
}

// TestAgainstPapers: after every step, each tensor differs from the twin's by less than 1e-5 of its norm, the
// tolerance of all optimizers here; Muon's float32 polynomial by less than 1e-4.
func TestAgainstPapers(t *testing.T) {
	for _, twin := range twins {
		t.Run(twin.name, func(t *testing.T) {
			limit := 1e-5
			if twin.name == "muon" {
				limit = 1e-4
			}
			if err := compare(t, twin.rule, twin.options, limit, twin.update); err != nil {
				t.Error(err)
			}
			wrong := func(s *state, g *mat.Dense, at float64) { twin.update(s, g, at+1) }
			if twin.name == "lion" { // which does not know the step
				wrong = func(s *state, g *mat.Dense, at float64) { g.Scale(-1, g); twin.update(s, g, at) }
			}
			if compare(t, twin.rule, twin.options, limit, wrong) == nil {
				t.Error("a twin that is wrong on purpose was not found out")
			}
		})
	}
}

func compare(
	t *testing.T, rule optimizer.Optimizer, options map[string]string, limit float64, update func(s *state, g *mat.Dense, t float64),
) error {
	l := layout(t)
	slots, err := rule.Slots(t.Context(), options)
	if err != nil {
		return err
	}
	m := optimizer.Memory{Layout: l, Params: make([]float32, l.Len()), Grads: make([]float32, l.Len())}
	for range slots {
		m.Slots = append(m.Slots, make([]float32, l.Len()))
	}
	gradient(l, m.Params, 0)
	var states []*state
	for _, of := range l.Tensors() {
		s := &state{Tensor: of, p: matrix(of, m.Params)}
		r, c := s.p.Dims()
		s.m, s.v = mat.NewDense(r, c, nil), mat.NewDense(r, c, nil)
		states = append(states, s)
	}
	session, err := rule.Open(t.Context(), options, m)
	if err != nil {
		return err
	}
	defer session.Close()
	for step := 1; step <= steps; step++ {
		gradient(l, m.Grads, step)
		var gradients []*mat.Dense
		squares := 0.0
		for _, s := range states {
			g := matrix(s.Tensor, m.Grads)
			squares += mat.Norm(g, 2) * mat.Norm(g, 2)
			gradients = append(gradients, g)
		}
		if options["max_grad_norm"] == "0.5" {
			for _, g := range gradients {
				g.Scale(0.5/math.Sqrt(squares), g)
			}
		}
		if _, err := session.Step(t.Context(), optimizer.Step{Step: step, LR: rate}); err != nil {
			return err
		}
		for i, s := range states {
			update(s, gradients[i], float64(step))
			var d mat.Dense
			d.Sub(matrix(s.Tensor, m.Params), s.p)
			if e := mat.Norm(&d, 2) / mat.Norm(s.p, 2); !(e < limit) {
				return fmt.Errorf("step %d: %s differs by %g of its norm, want less than %g", step, s.Name, e, limit)
			}
		}
	}
	return nil
}

func TestConformance(t *testing.T) {
	for _, o := range []optimizer.Optimizer{
		lion.New(), nadamw.New(), adafactor.New(), muon.New(), sam.New(), schedulefree.New(), shampoo.New(),
	} {
		for _, r := range optimizertest.Conformance(t.Context(), o) {
			if r.Err != nil {
				t.Errorf("%T: %s: %v", o, r.Name, r.Err)
			}
		}
	}
}

// TestOptions: a value out of range is an error that names the rule and the option.
func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o      optimizer.Optimizer
		option string
	}{{lion.New(), "beta2"}, {nadamw.New(), "eps"}, {adafactor.New(), "clip_threshold"}, {muon.New(), "momentum"},
		{sam.New(), "rho"}, {schedulefree.New(), "beta1"}, {shampoo.New(), "block_size"}} {
		_, err := c.o.Slots(t.Context(), map[string]string{c.option: "-1"})
		info, _ := c.o.Describe(t.Context())
		if err == nil || !strings.Contains(err.Error(), info.Name+": ") || !strings.Contains(err.Error(), c.option) {
			t.Errorf("%s: error %v, want one that names %s", info.Name, err, c.option)
		}
	}
}

// TestMuonSingularValues: five steps bring singular values into [0.7, 1.2]. Source: Jordan et al. 2024, where
// values from about 0.01 of the largest on are meant; here the smallest is about half of it.
func TestMuonSingularValues(t *testing.T) {
	const n = 24
	l, err := tensor.NewLayout(tensor.Tensor{Name: "w", Shape: tensor.Shape{n, n}, Kind: tensor.Weight})
	if err != nil {
		t.Fatal(err)
	}
	section := func() []float32 { return make([]float32, l.Len()) }
	m := optimizer.Memory{Layout: l, Params: section(), Grads: section(), Slots: [][]float32{section(), section()}}
	for i := range n {
		for j := range n { // a circulant matrix: its singular values are known to spread, and none is near 0
			m.Grads[i*n+j] = float32(math.Exp(-float64((j - i + n) % n)))
		}
	}
	s, err := muon.New().Open(t.Context(), map[string]string{"weight_decay": "0"}, m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Step(t.Context(), optimizer.Step{Step: 1, LR: 1 / (0.2 * math.Sqrt(n))}); err != nil {
		t.Fatal(err)
	}
	var svd mat.SVD
	svd.Factorize(matrix(l.Tensors()[0], m.Params), mat.SVDNone)
	for _, v := range svd.Values(nil) {
		if v < 0.68 || v > 1.2 {
			t.Errorf("singular value %g, want about 0.7 to 1.2", v)
		}
	}
}
