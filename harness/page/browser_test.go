package page_test

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"harness.invalid/harness/page"
	"harness.invalid/harness/series/seriestest"
)

// drive opens a page in a browser, in a frame of a given width, under a script that clicks and looks and reports
// what it saw by POST to /result. The page is served as it is, with its policy.
func drive(t *testing.T, width int, pages http.Handler, address, script string) <-chan []byte {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("no Chromium here")
	}
	seen := make(chan []byte, 10)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /result", func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		seen <- text
	})
	mux.HandleFunc("GET /driver", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!DOCTYPE html><iframe id="frame" style="width:%dpx;height:900px;border:0"></iframe><script>
const frame = document.getElementById("frame"), errors = [];
const report = v => fetch("/result", {method: "POST", body: JSON.stringify(v)});
const until = async f => {
  for (let i = 0; i < 400; i++) { if (f()) return true; await new Promise(r => setTimeout(r, 50)); }
  return false;
};
frame.onload = async () => {
  const w = frame.contentWindow, d = frame.contentDocument;
  w.addEventListener("error", e => errors.push(e.message));
  d.addEventListener("securitypolicyviolation", e => errors.push("policy: " + e.violatedDirective + " " + e.blockedURI));
  try { await (async () => {%s})(); } catch (e) { report({error: String(e)}); }
};
frame.src = %q;
</script>`, width, script, address)
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) { pages.ServeHTTP(framed{w}, r) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	profile, err := os.MkdirTemp("", "harness-browser-")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--user-data-dir="+profile, "--window-size=1300,1000",
		"--remote-debugging-port=0", server.URL+"/driver")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		// The browser's other processes end when they see that it is gone, and write until then.
		for range 100 {
			if os.RemoveAll(profile) == nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
	return seen
}

// framed lets a page be shown in the test's frame.
type framed struct{ http.ResponseWriter }

func (f framed) WriteHeader(status int) {
	f.Header().Del("Content-Security-Policy")
	f.ResponseWriter.WriteHeader(status)
}

func (f framed) Write(b []byte) (int, error) {
	f.Header().Del("Content-Security-Policy")
	return f.ResponseWriter.Write(b)
}

func (f framed) Unwrap() http.ResponseWriter { return f.ResponseWriter }

func take(t *testing.T, seen <-chan []byte, v any) {
	t.Helper()
	select {
	case text := <-seen:
		if err := json.Unmarshal(text, v); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	case <-time.After(60 * time.Second):
		t.Fatal("the browser has told nothing for a minute")
	}
}

// useCharts does with the charts of a page what a reader may do, and reports what is there then.
const useCharts = `
  d.getElementById("more").open = true; await until(() => d.querySelectorAll("#more path.curve").length);
  const count = s => d.querySelectorAll("#curves figure" + s).length, first = [...d.querySelectorAll("#curves figure:not([hidden])")]
    .find(f => f.textContent.startsWith("Trained: loss")).querySelector("svg.chart");
  const ticks = () => [...first.querySelectorAll("text[text-anchor=middle]")].map(e => e.textContent);
  const v = {charts: count(":not([hidden])"), curves: count(" path.curve"), areas: count(" path.area"),
    skipped: count(":not([hidden]) g line[style]"), all: ticks()};
  v.label = first.getAttribute("aria-label");
  v.overflow = d.documentElement.scrollWidth - w.innerWidth;
  v.nan = [...d.querySelectorAll("path")].filter(p => /NaN|Infinity/.test(p.getAttribute("d"))).length;
  const arm = [...d.querySelectorAll("#legend button")].find(b => b.textContent === "ipu/adamw");
  arm.click(); v.without = count(" path.curve"); [...d.querySelectorAll("#legend button")].find(b => b.textContent === "ipu/adamw").click();
  const [axis, phase, mode] = d.querySelectorAll("#controls select");
  const choose = (s, value) => { s.value = value; s.dispatchEvent(new w.Event("change")); };
  choose(axis, "measured-seconds"); v.seconds = ticks(); choose(axis, "steps");
  choose(phase, "1"); v.squad = ticks(); choose(phase, "-1");
  choose(mode, "runs"); v.each = count(" path.curve"); choose(mode, "mean");
  first.dispatchEvent(new w.KeyboardEvent("keydown", {key: "+"})); v.zoomed = ticks();
  first.dispatchEvent(new w.KeyboardEvent("keydown", {key: "0"})); v.back = ticks();
  const log = d.querySelector("figure:not([hidden]) figcaption button"), pressed = log.getAttribute("aria-pressed");
  log.click(); v.log = pressed !== log.getAttribute("aria-pressed");
  const box = first.getBoundingClientRect();
  first.dispatchEvent(new w.PointerEvent("pointermove", {clientX: box.left + box.width * .7, clientY: box.top + 50}));
  const tip = d.querySelector(".tip:not([hidden])");
  v.tip = tip ? tip.textContent : ""; v.tipInside = !!tip && tip.getBoundingClientRect().right <= w.innerWidth + 1;
  w.dispatchEvent(new w.Event("beforeprint")); v.open = d.querySelectorAll("details:not([open])").length;
  v.pressed = [...d.querySelectorAll("[aria-pressed]")].map(b => b.getAttribute("aria-pressed")).filter(p => p !== "true" && p !== "false");
  v.alike = first.parentNode.querySelector(".alike").textContent;
  v.strange = (d.body.innerText.match(/.*(NaN|undefined|\bnull\b).*/) || [""])[0];
  v.errors = errors;
  report(v);`

// TestInBrowser: the script draws, zooms, toggles, changes axes and shows values, on a wide screen and on a phone,
// where nothing is wider than the screen.
func TestInBrowser(t *testing.T) {
	text := write(t, seriestest.Write(t, t.TempDir(), 3, ipu, gpu))
	pages := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, text)
	})
	for _, width := range []int{1200, 360} {
		seen := drive(t, width, pages, "/page", useCharts)
		var v struct {
			Error                                                              string
			Errors                                                             []string
			Charts, Curves, Areas, Skipped, Overflow, NaN, Without, Each, Open int
			All, Seconds, Squad, Zoomed, Back                                  []string
			Label, Tip, Alike, Strange                                         string
			Pressed                                                            []string
			Log, TipInside                                                     bool
		}
		take(t, seen, &v)
		if v.Error != "" || len(v.Errors) > 0 {
			t.Fatalf("%d wide: %s %v", width, v.Error, v.Errors)
		}
		// Loss, masked LM loss, F1, exact match, gradient norm, loss scale, learning rate, seconds; two arms each.
		if v.Charts != 8 || v.Curves != 16 || v.Areas != 16 || v.Without != 8 || v.Each != 48 || v.NaN != 0 {
			t.Errorf("%d wide: %d charts with %d curves and %d bands, %d without an arm, %d of each run, %d with places that are no numbers",
				width, v.Charts, v.Curves, v.Areas, v.Without, v.Each, v.NaN)
		}
		if v.Skipped == 0 {
			t.Errorf("%d wide: no skipped step is marked", width)
		}
		if v.Overflow > 0 {
			t.Errorf("%d wide: the page is %d pixels wider than the screen", width, v.Overflow)
		}
		if same := strings.Join(v.All, " "); same == strings.Join(v.Zoomed, " ") || same != strings.Join(v.Back, " ") ||
			same == strings.Join(v.Squad, " ") {
			t.Errorf("%d wide: ticks %v, zoomed %v, back %v, of squad %v", width, v.All, v.Zoomed, v.Back, v.Squad)
		}
		if n := len(v.Seconds); n == 0 || v.Seconds[n-1] != "measured seconds of training" {
			t.Errorf("%d wide: ticks of the time %v", width, v.Seconds)
		}
		if !strings.Contains(v.Tip, "step 49") || !strings.Contains(v.Tip, "ipu/adamw, mean of 3") || !strings.Contains(v.Tip, "±") ||
			!v.TipInside {
			t.Errorf("%d wide: the tip says %q, inside: %v", width, v.Tip, v.TipInside)
		}
		if len(v.Pressed) > 0 || v.Strange != "" {
			t.Errorf("%d wide: buttons are pressed %q, and the page shows %q", width, v.Pressed, v.Strange)
		}
		if v.Alike != "Coincide: ipu/adamw, gpu-ref:fp16/adamw." {
			t.Errorf("%d wide: the arms have the same losses, and the chart says %q", width, v.Alike)
		}
		if !strings.Contains(v.Label, "loss, nats against step. "+v.Alike+" ipu/adamw, mean of 3: from") {
			t.Errorf("%d wide: the first chart is described as %q", width, v.Label)
		}
		if !v.Log || v.Open != 0 {
			t.Errorf("%d wide: log button %v, %d details closed on paper", width, v.Log, v.Open)
		}
	}
}

// TestAxe: axe-core finds nothing wrong with a page. It is not part of this repository: HARNESS_AXE is the path of its
// axe.min.js, as in the package axe-core of npm.
func TestAxe(t *testing.T) {
	path := os.Getenv("HARNESS_AXE")
	if path == "" {
		t.Skip("HARNESS_AXE does not say where axe-core is")
	}
	axe, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	records := seriestest.Write(t, dir, 3, ipu, gpu)
	if err := os.Remove(filepath.Join(records[5].Dir, "result.json")); err != nil {
		t.Fatal(err)
	}
	server := page.NewServer(page.InFolder(dir))
	reply := httptest.NewRecorder()
	server.ServeHTTP(reply, httptest.NewRequest("GET", "/", nil))
	report := html.UnescapeString(link.FindStringSubmatch(reply.Body.String())[1])
	// The page's policy, which forbids scripts of others, is left out.
	policy := regexp.MustCompile(`<meta http-equiv[^>]*>`)
	pages := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/axe.js" {
			_, _ = w.Write(axe)
			return
		}
		reply := httptest.NewRecorder()
		server.ServeHTTP(reply, r)
		w.Header().Set("Content-Type", reply.Header().Get("Content-Type"))
		_, _ = io.WriteString(w, policy.ReplaceAllString(reply.Body.String(), `<script src="/axe.js"></script>`))
	})
	for _, address := range []string{"/", report} {
		for _, width := range []int{1280, 390} {
			seen := drive(t, width, pages, address, `
  const found = await w.axe.run(d, {resultTypes: ["violations"]});
  report({passes: found.passes.length, found: found.violations.map(v => v.impact + " " + v.id + ": " + v.nodes[0].html)});`)
			var v struct {
				Error  string
				Passes int
				Found  []string
			}
			take(t, seen, &v)
			if v.Error != "" || v.Passes == 0 || len(v.Found) > 0 {
				t.Errorf("%s, %d wide: %s, %d rules kept, broken: %s", address, width, v.Error, v.Passes, strings.Join(v.Found, "\n"))
			}
		}
	}
}

// TestLiveInBrowser: a page follows a run without being reloaded, and keeps what its reader chose.
func TestLiveInBrowser(t *testing.T) {
	dir := t.TempDir()
	seriestest.Write(t, dir, 1, gpu)
	more := seriestest.Begun(t, dir, ipu, 1, 5)
	s := page.NewServer(page.InFolder(dir))
	s.Every = 50 * time.Millisecond
	server := httptest.NewServer(s)
	defer server.Close()
	_, list := get(t, server.URL)
	m := link.FindStringSubmatch(list)
	if m == nil {
		t.Fatalf("the list has no link:\n%s", list)
	}
	seen := drive(t, 1200, s, html.UnescapeString(m[1]), `
  const shows = text => until(() => d.getElementById("standing").textContent.includes(text));
  const axis = d.querySelector("#controls select");
  axis.value = "samples"; axis.dispatchEvent(new w.Event("change"));
  w.mark = "the same page";
  await report({ready: await until(() => /^live/.test(d.getElementById("live").textContent))});
  const followed = await shows("squad, step 10 of 40");
  await report({followed, axis: d.querySelector("#controls select").value, same: w.mark,
    runs: d.querySelector("#runs").textContent, errors});`)
	var first struct {
		Ready bool
		Error string
	}
	take(t, seen, &first)
	if !first.Ready {
		t.Fatalf("the page does not follow: %s", first.Error)
	}
	more(40)
	var v struct {
		Followed         bool
		Axis, Same, Runs string
		Errors           []string
		Error            string
	}
	take(t, seen, &v)
	if !v.Followed || v.Axis != "samples" || v.Same != "the same page" || !strings.Contains(v.Runs, filepath.Base(dir)) ||
		len(v.Errors) > 0 || v.Error != "" {
		t.Errorf("the page shows %+v", v)
	}
}
