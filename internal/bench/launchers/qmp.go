package launchers

import (
	"encoding/json"
	"fmt"
	"net"
	"time"
)

// qmp is QEMU's control connection: JSON lines, answers in the order of the
// questions, events between them (QEMU's docs/interop/qmp-spec).
type qmp struct {
	conn    net.Conn
	now     func() time.Time
	dec     *json.Decoder
	version string
}

// qmpPatience bounds one question; QEMU answers from its main loop at once.
const qmpPatience = 20 * time.Second

func newQMP(conn net.Conn, now func() time.Time) (*qmp, error) {
	q := &qmp{conn: conn, now: now, dec: json.NewDecoder(conn)}
	var greeting struct {
		QMP struct {
			Version struct {
				QEMU    struct{ Major, Minor, Micro int }
				Package string
			}
		}
	}
	if err := q.dec.Decode(&greeting); err != nil {
		return nil, fmt.Errorf("talk to QEMU: %w", err)
	}
	v := greeting.QMP.Version
	q.version = fmt.Sprintf("%d.%d.%d", v.QEMU.Major, v.QEMU.Minor, v.QEMU.Micro)
	if v.Package != "" {
		q.version += " " + v.Package
	}
	return q, q.do("qmp_capabilities", nil)
}

// do executes a command without arguments and reads its answer into to, unless that is nil.
func (q *qmp) do(command string, to any) error {
	if err := q.ask(command, to); err != nil {
		return fmt.Errorf("QEMU %s: %w", command, err)
	}
	return nil
}

func (q *qmp) ask(command string, to any) error {
	// A deadline that cannot be set shows as an error of the write.
	_ = q.conn.SetDeadline(q.now().Add(qmpPatience))
	if err := json.NewEncoder(q.conn).Encode(map[string]string{"execute": command}); err != nil {
		return err
	}
	for {
		var m struct {
			Event  string
			Return json.RawMessage
			Error  *struct{ Desc string }
		}
		switch err := q.dec.Decode(&m); {
		case err != nil:
			return err
		case m.Error != nil:
			return fmt.Errorf("%s", m.Error.Desc)
		case m.Event != "":
			continue
		case to == nil:
			return nil
		}
		return json.Unmarshal(m.Return, to)
	}
}
