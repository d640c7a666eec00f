package launchers

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"time"
)

// qmp is QEMU's control connection: JSON lines, answers in the order of the requests, events in
// between (QEMU's docs/interop/qmp-spec).
type qmp struct {
	conn    net.Conn
	now     func() time.Time
	dec     *json.Decoder
	version string
	// fault is the first disk error since it was last taken; "" is none.
	fault string
}

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
	return q, q.execute("qmp_capabilities", nil)
}

// execute executes a command without arguments and reads its answer into to, unless that is nil.
func (q *qmp) execute(command string, to any) error { return q.call(command, nil, to) }

// human executes a command of QEMU's human monitor, which prints nothing but errors.
func (q *qmp) human(line string) error {
	var said string
	err := q.call("human-monitor-command", map[string]string{"command-line": line}, &said)
	if said = strings.TrimSpace(said); err == nil && said != "" {
		err = fmt.Errorf("QEMU %s: %s", line, said)
	}
	return err
}

// call executes a command with arguments, or without if they are nil.
func (q *qmp) call(command string, arguments map[string]string, to any) error {
	if err := q.sendCommand(command, arguments, to); err != nil {
		return fmt.Errorf("QEMU %s: %w", command, err)
	}
	return nil
}

func (q *qmp) sendCommand(command string, arguments map[string]string, to any) error {
	// If the deadline cannot be set, the write fails too.
	_ = q.conn.SetDeadline(q.now().Add(qmpPatience))
	if err := json.NewEncoder(q.conn).Encode(struct {
		Execute   string            `json:"execute"`
		Arguments map[string]string `json:"arguments,omitempty"`
	}{command, arguments}); err != nil {
		return err
	}
	for {
		var m struct {
			Event  string
			Data   struct{ Device, Operation, Reason string } // of BLOCK_IO_ERROR
			Return json.RawMessage
			Error  *struct{ Desc string }
		}
		switch err := q.dec.Decode(&m); {
		case err != nil:
			return err
		case m.Error != nil:
			return fmt.Errorf("%s", m.Error.Desc)
		case m.Event == "BLOCK_IO_ERROR" && q.fault == "":
			q.fault = fmt.Sprintf("%s disk %s: %s", m.Data.Operation, m.Data.Device, m.Data.Reason)
			continue
		case m.Event != "":
			continue
		case to == nil:
			return nil
		}
		return json.Unmarshal(m.Return, to)
	}
}
