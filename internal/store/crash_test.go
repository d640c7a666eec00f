package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/await"
	"github.com/teescope/teescope/internal/metric"
	"github.com/teescope/teescope/internal/store"
)

// A child process, this test binary again, appends round after round and prints the acknowledged ones. The test fills
// its disk, kills it and looks for every acknowledged round.

var round = &metric.Desc{Name: "test_round", Kind: metric.Gauge, Labels: []string{"series"}, Help: "Number of the round."}

// width is the number of series in a round: enough that its record in the log spans pages, because the stock log
// tears between two pages.
const width = 2_000

func roundSamples(i int) []metric.Sample {
	r := rand.New(rand.NewPCG(uint64(i), 1))
	s := make([]metric.Sample, width)
	for j := range s {
		s[j] = metric.Sample{Desc: round, Labels: []string{strconv.Itoa(j)}, Value: float64(i) + r.Float64()} // does not compress
	}
	return s
}

// base is the time of round 0; rounds are a second apart.
var base = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func roundTime(i int) time.Time { return base.Add(time.Duration(i) * time.Second) }

func crashOptions(dir string) store.Options {
	o := store.DefaultOptions()
	o.Dir, o.Reserve, o.MinFree = dir, 16<<20, 4<<20
	o.SyncInterval = 200 * time.Millisecond
	o.RuleInterval = time.Hour
	return o
}

func TestMain(m *testing.M) {
	switch os.Getenv("STORE_TEST_CHILD") {
	case "append":
		os.Exit(appendForEver())
	case "nobody":
		os.Exit(openAsNobody())
	}
	os.Exit(m.Run())
}

func appendForEver() int {
	o := crashOptions(os.Getenv("STORE_TEST_DIR"))
	if os.Getenv("STORE_TEST_MINFREE") != "" {
		o.MinFree = 0
	}
	s, err := store.Open(context.Background(), o)
	if err != nil {
		fmt.Println("open", err)
		return 1
	}
	fmt.Println("open")
	from, _ := strconv.Atoi(os.Getenv("STORE_TEST_FROM"))
	for i := from; ; i++ {
		if err := s.Append(roundTime(i), roundSamples(i)); err != nil {
			fmt.Println("err", i, int(collect(s)["teescope_store_wal_errors_total"]), strings.ReplaceAll(err.Error(), "\n", "; "))
			// clock: a pace of the program that is killed, not a wait.
			time.Sleep(10 * time.Millisecond)
			continue
		}
		fmt.Println("ack", i, int(collect(s)["teescope_store_wal_errors_total"]))
		// clock: a pace of the program that is killed, not a wait.
		time.Sleep(5 * time.Millisecond) // keeps the number of rounds to look for small
	}
}

func openAsNobody() int {
	const nobody = 65534
	if err := syscall.Setuid(nobody); err != nil {
		fmt.Println(err)
		return 2
	}
	_, err := store.Open(context.Background(), crashOptions(os.Getenv("STORE_TEST_DIR")))
	fmt.Println(err)
	return 0
}

func child(what, dir string, env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append(env, "STORE_TEST_CHILD="+what, "STORE_TEST_DIR="+dir)...)
	return cmd
}

// appending is a running child.
type appending struct{ *await.Program }

func startAppending(t *testing.T, dir string, from int, env ...string) appending {
	t.Helper()
	return appending{await.Start(t, child("append", dir, append(env, "STORE_TEST_FROM="+strconv.Itoa(from))...))}
}

// rounds returns the rounds that the child has said are acknowledged, and how many were refused and writes failed.
func (a appending) rounds() (acked []int, refused, walErrors int) {
	for line := range strings.Lines(a.Out.String()) {
		f := strings.Fields(line)
		if !strings.HasSuffix(line, "\n") || f[0] == "open" {
			continue
		}
		walErrors, _ = strconv.Atoi(f[2])
		if f[0] == "err" {
			refused++
			continue
		}
		i, _ := strconv.Atoi(f[1])
		acked = append(acked, i)
	}
	return acked, refused, walErrors
}

// counts returns the numbers of rounds acknowledged and refused, and of failed writes.
func (a appending) counts() (acked, refused, walErrors int) {
	rounds, refused, walErrors := a.rounds()
	return len(rounds), refused, walErrors
}

// kill kills the child (-9) and returns the rounds acknowledged until then.
func (a appending) kill() []int {
	a.Stop(syscall.SIGKILL)
	acked, _, _ := a.rounds()
	return acked
}

// checkAcknowledged opens the store and looks for every acknowledged round.
func checkAcknowledged(t *testing.T, dir string, acked []int) {
	t.Helper()
	srv := httptest.NewServer(open(t, crashOptions(dir)).Handler())
	defer srv.Close()
	found := map[int]bool{}
	const steps = 400 // a query may hold only a limited number of samples
	for from := 0; from <= acked[len(acked)-1]; from += steps {
		expr := fmt.Sprintf(`count(floor(test_round) == time() - %d) == %d`, base.Unix(), width)
		var d struct{ Result []struct{ Values [][2]any } }
		get(t, srv.URL, fmt.Sprintf("query_range?query=%s&start=%d&end=%d&step=1",
			url.QueryEscape(expr), roundTime(from).Unix(), roundTime(from+steps-1).Unix()), &d)
		for _, r := range d.Result {
			for _, v := range r.Values {
				found[int(v[0].(float64))-int(base.Unix())] = true
			}
		}
	}
	missing := 0
	for _, i := range acked {
		if !found[i] {
			if missing++; missing < 5 {
				t.Errorf("round %d was acknowledged and is not there", i)
			}
		}
	}
	if missing > 0 {
		t.Errorf("%d of %d acknowledged rounds are missing", missing, len(acked))
	}
}

func TestKill(t *testing.T) {
	dir := t.TempDir()
	var acked []int
	next := 0
	for i := range 20 {
		a := startAppending(t, dir, next)
		least := rand.IntN(15) // any moment is a good one to be killed
		eventually(t, "rounds are acknowledged", func() bool { n, _, _ := a.counts(); return n > least })
		got := a.kill()
		if _, refused, _ := a.counts(); refused > 0 {
			t.Fatalf("iteration %d: %s", i, a.Last())
		}
		acked = append(acked, got...)
		next = got[len(got)-1] + 2 // the round in flight may have been stored
	}
	t.Logf("%d rounds acknowledged", len(acked))
	checkAcknowledged(t, dir, acked)
}

// smallDisk mounts a separate small file system.
func smallDisk(t *testing.T, kind string, mib int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	switch kind {
	case "tmpfs":
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
			t.Skip("mount tmpfs:", err)
		}
	case "ext4":
		image := filepath.Join(t.TempDir(), "image")
		must(t, os.WriteFile(image, nil, 0o600))
		must(t, os.Truncate(image, int64(mib)<<20))
		if out, err := exec.Command("mkfs.ext4", "-q", "-m", "0", image).CombinedOutput(); err != nil {
			t.Skipf("mkfs.ext4: %v %s", err, out)
		}
		if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
			t.Skipf("mount -o loop: %v %s", err, out)
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// fill writes a file until the disk is full.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	must(t, err)
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err == nil {
			continue
		} else if !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
		size /= 2
	}
}

// TestFullDisk fills the disk under a running store, frees it, lets the store continue, kills it and restarts it.
// With MinFree the store refuses before the disk is full; without, it meets failed writes and torn records.
func TestFullDisk(t *testing.T) {
	for _, kind := range []string{"tmpfs", "ext4"} {
		for _, tt := range []struct {
			name string
			env  []string
		}{{"refuse", nil}, {"tear", []string{"STORE_TEST_MINFREE=0"}}} {
			t.Run(kind+"/"+tt.name, func(t *testing.T) {
				disk := smallDisk(t, kind, 160)
				dir, filler := filepath.Join(disk, "data"), filepath.Join(disk, "filler")
				a := startAppending(t, dir, 0, tt.env...)
				count := func(what string, enough func(acked, refused, walErrors int) bool) {
					t.Helper()
					eventually(t, what, func() bool { return enough(a.counts()) })
				}
				count("rounds are stored", func(acked, _, _ int) bool { return acked >= 20 })
				for range 3 {
					_, refused0, _ := a.counts()
					// The reserve lets the store continue for a while, so fill again.
					count("rounds are refused", func(_, refused, _ int) bool { fill(t, filler+strconv.Itoa(rand.Int())); return refused > refused0+5 })
					acked0, _, _ := a.counts()
					fillers, err := filepath.Glob(filler + "*")
					must(t, err)
					for _, f := range fillers {
						must(t, os.Remove(f))
					}
					count("the store goes on", func(acked, _, _ int) bool { return acked > acked0+20 })
				}
				acked := a.kill()
				n, refused, walErrors := a.counts()
				t.Logf("%d rounds acknowledged, %d refused, %d failed writes", n, refused, walErrors)
				if tt.name == "tear" && walErrors == 0 {
					t.Error("no write failed: the test did not test")
				}
				checkAcknowledged(t, dir, acked)
			})
		}
	}
}

func TestFullDiskAtStart(t *testing.T) {
	disk := smallDisk(t, "tmpfs", 8)
	fill(t, filepath.Join(disk, "filler"))
	_, err := store.Open(t.Context(), crashOptions(filepath.Join(disk, "data")))
	if err == nil || !strings.Contains(err.Error(), "free some space") {
		t.Errorf("error %v, want one that says what to do", err)
	}
}

func TestLocked(t *testing.T) {
	o := options(t)
	open(t, o)
	_, err := store.Open(t.Context(), o)
	if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d (lock file %s/lock)", os.Getpid(), o.Dir)) {
		t.Errorf("error %v", err)
	}
}

func TestUnwritable(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("becoming another user needs root")
	}
	out, err := child("nobody", t.TempDir()).Output()
	must(t, err)
	if s := string(out); !strings.Contains(s, "not writable") && !strings.Contains(s, "make data directory") || !strings.Contains(s, "permission denied") || !strings.Contains(s, "choose") {
		t.Errorf("said %q", s)
	}
}

func TestUncleanStart(t *testing.T) {
	dir := t.TempDir()
	unclean := func() float64 {
		s := open(t, crashOptions(dir))
		defer s.Close()
		return collect(s)["teescope_store_unclean_start"]
	}
	if got := unclean(); got != 0 {
		t.Errorf("new directory: %v", got)
	}
	a := startAppending(t, dir, 0)
	eventually(t, "a round is acknowledged", func() bool { n, _, _ := a.counts(); return n > 0 })
	a.kill()
	if got := unclean(); got != 1 {
		t.Errorf("after kill -9: %v", got)
	}
	if got := unclean(); got != 0 {
		t.Errorf("after a clean stop: %v", got)
	}
}

// damage overwrites a few bytes of a file.
func damage(t testing.TB, name string, at int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	old := make([]byte, 8)
	_, err = f.ReadAt(old, at)
	must(t, err)
	if bytes.Equal(old, make([]byte, 8)) {
		t.Fatalf("%s has nothing at %d", name, at)
	}
	_, err = f.WriteAt([]byte("damaged!"), at)
	must(t, err)
}

// session opens the store, appends rounds and closes it.
func session(t *testing.T, o store.Options, from, to int) {
	t.Helper()
	s, err := store.Open(t.Context(), o)
	must(t, err)
	for i := from; i < to; i++ {
		must(t, s.Append(roundTime(i), []metric.Sample{call("a", "read", float64(i))}))
	}
	must(t, s.Close())
}

func present(t *testing.T, s *store.Store, i int) bool {
	t.Helper()
	p := query(t, s, fmt.Sprintf(`tee_syscalls_total == %d`, i), roundTime(i))
	return len(p) == 1
}

// TestDamagedLog: the data of a damaged segment from the damage on is missing from answers, which say so; later
// segments are answered.
func TestDamagedLog(t *testing.T) {
	o := options(t)
	for i := range 3 {
		session(t, o, i*100, (i+1)*100)
	}
	damage(t, filepath.Join(o.Dir, "wal", "00000001"), 1000)
	must(t, os.RemoveAll(filepath.Join(o.Dir, "chunks_head"))) // it has some of the rounds too
	s := open(t, o)
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "was damaged and is in quarantine/") {
		t.Errorf("the store says %v", err)
	}
	if l := s.Losses(); len(l) != 1 || !strings.Contains(l[0].Reason, "segment 00000001 is damaged") {
		t.Errorf("the losses are %v", l)
	}
	if collect(s)["teescope_store_cut_bytes_total"] == 0 {
		t.Error("no cut bytes are counted")
	}
	lost := 0
	for i := range 300 {
		if !present(t, s, i) {
			lost++
			if i < 110 || i >= 200 {
				t.Errorf("round %d is lost", i)
			}
		}
	}
	if lost == 0 {
		t.Error("nothing was lost: the test did not test")
	}
	must(t, s.Append(roundTime(300), []metric.Sample{call("a", "read", 300)}))
	must(t, s.Close())
	s = open(t, o)
	if err := s.Err(); err != nil {
		t.Errorf("at the next start: %v", err)
	}
	if !present(t, s, 300) {
		t.Error("what came after the damage is lost")
	}
}

// TestDamagedHeadChunks: the log has all the data.
func TestDamagedHeadChunks(t *testing.T) {
	for _, folder := range []string{"data", "data[1]"} { // the signs of patterns are letters in a user's path
		t.Run(folder, func(t *testing.T) { damagedHeadChunks(t, folder) })
	}
}

func damagedHeadChunks(t *testing.T, folder string) {
	o := options(t)
	o.Dir = filepath.Join(o.Dir, folder)
	session(t, o, 0, 400)
	files, err := os.ReadDir(filepath.Join(o.Dir, "chunks_head"))
	must(t, err)
	if len(files) == 0 {
		t.Fatal("no head chunks on disk")
	}
	damage(t, filepath.Join(o.Dir, "chunks_head", files[0].Name()), 40)
	s := open(t, o)
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "head chunks chunks_head-") {
		t.Errorf("the store says %v", err)
	}
	for i := range 400 {
		if !present(t, s, i) {
			t.Fatalf("round %d is lost", i)
		}
	}
}

// TestDamagedLogWhileRunning: the log can no longer be shortened, and nothing is lost when the store notices.
func TestDamagedLogWhileRunning(t *testing.T) {
	o := options(t)
	step := func(i int) time.Time { return base.Add(time.Duration(i) * time.Minute) }
	var s *store.Store
	n := 0
	for range 6 {
		var err error
		s, err = store.Open(t.Context(), o)
		must(t, err)
		for range 20 {
			must(t, s.Append(step(n), []metric.Sample{call("a", "read", float64(n))}))
			n++
		}
		if n < 120 {
			must(t, s.Close())
		}
	}
	defer s.Close()
	damage(t, filepath.Join(o.Dir, "wal", "00000001"), 300)
	eventually(t, "the store notices", func() bool {
		must(t, s.Append(step(n), []metric.Sample{call("a", "read", float64(n))}))
		n++
		s.EachMinute()
		return collect(s)["teescope_store_checkpoint_errors_total"] > 0
	})
	for range 10 {
		must(t, s.Append(step(n), []metric.Sample{call("a", "read", float64(n))}))
		n++
	}
	for i := range n {
		if p := query(t, s, fmt.Sprintf(`tee_syscalls_total == %d`, i), step(i)); len(p) != 1 {
			t.Errorf("minute %d is lost", i)
		}
	}
}
