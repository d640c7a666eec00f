package repair

// Damaged parts of the store move to the folder quarantine, each with a note of the reason and the loss. Queries over
// the lost time carry a warning, and a finding stays open until the part is deleted.

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/teescope/teescope/internal/disk"
)

// QuarantineName is the folder, in the data folder, for damaged parts. Next to each part, NAME.txt states the reason
// and what was lost. Nothing deletes from it but the oldest of many samples from the future. Names with a dot are no
// parts: .head, .salvage and .discarded hold what is elsewhere too.
const QuarantineName = "quarantine"

// Loss is a part of the store that was damaged, and what queries no longer find.
type Loss struct {
	Part   string // its name in the quarantine, or the block that holds it
	Kind   string // "block", "description" (of a block), "log", "head chunks", "tombstones", "samples from the future"
	Reason string
	Lost   string    // what was lost, in words; "nothing" if the rest had it all
	From   time.Time // the samples that may be missing are in [From, To]; zero: unknown
	To     time.Time
	Moved  time.Time // when it was put into the quarantine; zero: queries skip it where it is

	// Boot and Uptime are the machine's boot, and the time since then, at Moved: for samples from the future. Behind: the
	// clock was behind then for certain, so the samples are not from the future.
	Boot   string
	Uptime time.Duration
	Behind bool
}

// LostNothing is the loss if another part of the store had the data too.
const LostNothing = "nothing"

// Overlaps reports whether samples in [mint, maxt], in milliseconds, may be missing.
func (l Loss) Overlaps(mint, maxt int64) bool {
	return l.Lost != LostNothing && (l.To.IsZero() || l.To.UnixMilli() >= mint) && (l.From.IsZero() || l.From.UnixMilli() <= maxt)
}

// Error describes the damage, as a warning of a query or as the trouble of the store.
func (l Loss) Error() string {
	if l.Kind == Future {
		return fmt.Sprintf("%s; %s are in %s/%s now: check that the machine's time is synchronised", l.Reason, l.Lost, QuarantineName, l.Part)
	}
	if l.Moved.IsZero() {
		return fmt.Sprintf("%s %s is damaged; answers leave out %s", l.Kind, l.Part, l.Lost)
	}
	return fmt.Sprintf("%s %s was damaged and is in %s/ now; lost: %s", l.Kind, l.Part, QuarantineName, l.Lost)
}

// noteKeys are the lines of a note.
var noteKeys = []string{"kind", "reason", "lost", "from", "to", "moved", "boot", "behind"}

func (l Loss) note(was string) string {
	var b strings.Builder
	switch {
	case l.Kind == Future && l.Behind:
		b.WriteString("teescope moved samples here because the clock went back behind them, to a time before teescope was built. They come back by\n" +
			"themselves when the clock is right.\n\n")
	case l.Kind == Future:
		b.WriteString("teescope moved samples here because the clock went back behind them, and went on without them. If the clock was wrong before, delete\n" +
			"the folder and this note. If it was wrong after, stop the monitor and move the folders in it to the data folder.\n\n")
	default:
		fmt.Fprintf(&b, "teescope moved %s here because it was damaged, and went on without it.\nDelete it, and this note, when you no longer need it.\n\n", was)
	}
	at := func(t time.Time) string {
		if t.IsZero() {
			return "unknown"
		}
		return t.UTC().Format(time.RFC3339)
	}
	for i, v := range []string{l.Kind, l.Reason, l.Lost, at(l.From), at(l.To), at(l.Moved), l.bootLine(), strconv.FormatBool(l.Behind)} {
		fmt.Fprintf(&b, "%s: %s\n", noteKeys[i], strings.ReplaceAll(v, "\n", "; "))
	}
	return b.String()
}

// setAside moves a part of the data folder into the quarantine and reports it: in a note, in the log and as the
// store's trouble. The move needs almost no space; on a full disk the reserve is given back first. It fails if the
// part cannot be moved, which then stays where it is.
func (d Folder) setAside(path string, l Loss) error {
	to := filepath.Join(d.Dir, QuarantineName)
	rel, err := filepath.Rel(d.Dir, path)
	if err != nil {
		return err
	}
	l.Moved = d.Now().Truncate(time.Second)
	l.Part = cmp.Or(l.Part, strings.ReplaceAll(rel, string(filepath.Separator), "-"))
	if len(filepath.Base(path)) != ulidLength { // names that will be used again
		l.Part += l.Moved.UTC().Format(PartTime)
	}
	l.Part = d.FreeName(l.Part)
	write := func() error { return d.WriteNote(l, rel) }
	move := func() error { return disk.Rename(path, filepath.Join(to, l.Part)) }
	err = write()
	if errors.Is(err, unix.ENOSPC) {
		if err = d.Reserve.Release(); err == nil {
			err = write()
		}
	}
	if err != nil && !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("write a note in %s: %w: make the folder writable", to, err)
	}
	if err := move(); err != nil {
		return fmt.Errorf("move %s to %s, because it is damaged (%s): %w: free some space, make the folder writable, or move it yourself", path, to, l.Reason, err)
	}
	if err := errors.Join(disk.Sync(to), disk.Sync(filepath.Dir(path))); err != nil {
		d.Log.Warn("flush the quarantine", "err", err)
	}
	d.Lost(l)
	return nil
}

// PartTime is the end of the name of a part.
const PartTime = "-20060102T150405"

// mostOfName is after how many parts of a name no free one is looked for: the folder cannot be read.
const mostOfName = 10_000

// FreeName returns a name that no part in the quarantine has yet.
func (d Folder) FreeName(name string) string {
	for i, free := 2, name; ; i++ {
		if i > mostOfName || !Exists(filepath.Join(d.Dir, QuarantineName, free)) {
			return free
		}
		free = fmt.Sprintf("%s.%d", name, i)
	}
}

// WriteNote writes the note of a part that was somewhere else.
func (d Folder) WriteNote(l Loss, was string) error {
	to := filepath.Join(d.Dir, QuarantineName)
	if err := disk.MkdirAll(to, 0o755); err != nil {
		return err
	}
	return disk.WriteFile(filepath.Join(to, l.Part+".txt"), []byte(l.note(was)), 0o644)
}

// ulidLength is the length of a block's name, which is unique.
const ulidLength = 26

// Quarantined lists the parts in a quarantine by their notes.
func Quarantined(dir string) (out []Loss) {
	entries, err := disk.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".txt") {
			continue
		}
		l := Loss{Part: name, Kind: "part", Reason: "it has no note", Lost: "unknown"}
		if fi, err := e.Info(); err == nil {
			l.Moved = fi.ModTime()
		}
		if f, err := disk.Open(filepath.Join(dir, name+".txt")); err == nil {
			l.read(bufio.NewScanner(f))
			f.Close()
		}
		out = append(out, l)
	}
	return out
}

// read parses a note.
func (l *Loss) read(lines *bufio.Scanner) {
	for lines.Scan() {
		key, v, ok := strings.Cut(lines.Text(), ": ")
		if !ok {
			continue
		}
		t, err := time.Parse(time.RFC3339, v)
		switch key {
		case "kind":
			l.Kind = v
		case "reason":
			l.Reason = v
		case "lost":
			l.Lost = v
		case "from":
			l.From = t
		case "to":
			l.To = t
		case "boot":
			l.readBoot(v)
		case "behind":
			l.Behind = v == "true"
		case "moved":
			if err == nil {
				l.Moved = t
			}
		}
	}
}

// SpanText says a range of time.
func SpanText(from, to time.Time) string {
	const minute = "2006-01-02 15:04:05"
	switch {
	case from.IsZero() && to.IsZero():
		return "of an unknown time"
	case from.IsZero():
		return "until " + to.UTC().Format(minute) + " UTC"
	case to.IsZero():
		return "from " + from.UTC().Format(minute) + " UTC"
	}
	last := minute
	if from.UTC().Format(time.DateOnly) == to.UTC().Format(time.DateOnly) {
		last = time.TimeOnly
	}
	return "from " + from.UTC().Format(minute) + " to " + to.UTC().Format(last) + " UTC"
}

// Future is the kind of a loss that is no damage: samples later than the clock when they were set aside.
const Future = "samples from the future"

// boot and uptime as a line of a note, and back.
func (l Loss) bootLine() string { return l.Boot + " " + strconv.FormatInt(int64(l.Uptime), 10) }

func (l *Loss) readBoot(v string) {
	id, at, _ := strings.Cut(v, " ")
	if n, err := strconv.ParseInt(at, 10, 64); err == nil {
		l.Boot, l.Uptime = id, time.Duration(n)
	}
}
