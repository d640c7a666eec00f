package protocols

import (
	"encoding/hex"
	"io"
	"net"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/teescope/teescope/internal/load"
)

var mongoTestAsk = load.Ask{Command: "find test.data key:{key}", Keys: 1, Bytes: 11}

func openMongo(t testing.TB, a load.Ask) *mongoDialect {
	t.Helper()
	d, err := mongodb.Open(a)
	if err != nil {
		t.Fatal(err)
	}
	return d.(*mongoDialect)
}

// mongoSays returns a server's message that answers a request.
func mongoSays(to int32, document []byte) []byte {
	b := appendMongo(nil, 7, "", "x", "", nil)
	at := mongoHead + 5 // the head, flags and the section's kind
	b = append(b[:at], document...)
	return bsoncore.UpdateLength(bsoncore.UpdateLength(b, 0, int32(len(b))), 8, to)
}

// mongoFound returns an answer to find with documents of _id and value.
func mongoFound(ok float64, pairs ...string) []byte {
	batch := bsoncore.NewArrayBuilder()
	for i := 0; i < len(pairs); i += 2 {
		batch.AppendDocument(bsoncore.NewDocumentBuilder().AppendString("_id", pairs[i]).AppendString("value", pairs[i+1]).Build())
	}
	cursor := bsoncore.NewDocumentBuilder().AppendArray("firstBatch", batch.Build()).AppendInt64("id", 0).AppendString("ns", "test.data").Build()
	return bsoncore.NewDocumentBuilder().AppendDocument("cursor", cursor).AppendDouble("ok", ok).Build()
}

func mongoAsking(d *mongoDialect) (*mongoSession, []byte) {
	s := &mongoSession{d: d, drawn: newDrawn(1)}
	return s, s.Request(nil)
}

// TestMongoRequest: the bytes match the manual, and MongoDB's own clients.
func TestMongoRequest(t *testing.T) {
	_, q := mongoAsking(openMongo(t, mongoTestAsk))
	const want = "74000000" + "01000000" + "00000000" + "dd070000" + "00000000" + "00" // length, number, 0, OP_MSG, flags, kind
	if got := hex.EncodeToString(q[:21]); got != want {
		t.Errorf("it begins with %s, want %s", got, want)
	}
	const text = `{"find": "data","filter": {"_id": "key:000000000"},"limit": {"$numberInt":"1"},"singleBatch": true,"$db": "test"}`
	if got := bsoncore.Document(q[21:]).String(); got != text {
		t.Errorf("it asks %s\nwant    %s", got, text)
	}
}

// TestMongoAnswers: an answer is right, wrong with a named kind, or a protocol violation; cut
// off at any byte it is none of these yet.
func TestMongoAnswers(t *testing.T) {
	d := openMongo(t, mongoTestAsk)
	stored := string(value(0, mongoTestAsk.Bytes))
	right := mongoSays(1, mongoFound(1, "key:000000000", stored))
	compressed := bsoncore.UpdateLength(append([]byte{}, right...), 12, 2012)
	more := append([]byte{}, right...)
	more[mongoHead] = 2 // moreToCome
	hollow := append([]byte{}, right...)
	hollow[mongoHead+5+4] = 0x99 // the kind of its first element
	for _, c := range []struct {
		name   string
		in     []byte
		wrong  string
		breach bool
	}{
		{"right", right, "", false},
		{"missing", mongoSays(1, mongoFound(1)), "missing key", false},
		{"refused", mongoSays(1, bsoncore.NewDocumentBuilder().AppendString("errmsg", "no").AppendDouble("ok", 0).Build()), "error reply", false},
		{"not ok", mongoSays(1, mongoFound(0, "key:000000000", stored)), "error reply", false},
		{"other key", mongoSays(1, mongoFound(1, "key:000000001", stored)), "wrong answer", false},
		{"other value", mongoSays(1, mongoFound(1, "key:000000000", stored[:10]+".")), "wrong answer", false},
		{"to another", mongoSays(2, mongoFound(1, "key:000000000", stored)), "", true},
		{"compressed", compressed, "", true},
		{"more to come", more, "", true},
		{"unsound", hollow, "", true},
		{"short", []byte{4, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0xdd, 7, 0, 0}, "", true},
		{"huge", []byte(strings.Repeat("\xff", 16)), "", true},
		{"other protocol", []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for cut := 0; cut < len(c.in) && !c.breach; cut++ {
				s, _ := mongoAsking(d)
				if n, a, err := s.Answer(c.in[:cut]); n != 0 || a.Ended || err != nil {
					t.Fatalf("cut after %d bytes: %d, %+v, %v", cut, n, a, err)
				}
			}
			s, _ := mongoAsking(d)
			n, a, err := s.Answer(append(c.in, "rest"...))
			if c.breach {
				if err == nil {
					t.Errorf("%d bytes, %+v: want an error", n, a)
				}
				return
			}
			if n != len(c.in) || err != nil || !a.Ended || a.Wrong != c.wrong {
				t.Errorf("%d of %d bytes, %+v, %v; want wrong %q", n, len(c.in), a, err, c.wrong)
			}
			if _, _, err := s.Answer(c.in); err == nil {
				t.Error("an answer without a request is accepted")
			}
		})
	}
}

func TestMongoRefuses(t *testing.T) {
	for _, command := range []string{"", "find test.data", "find data {key}", "find .data {key}", "find test. {key}", "find test.data key", "get test.data {key}", "find a.b {key} c"} {
		t.Run(command, func(t *testing.T) {
			if _, err := mongodb.Open(load.Ask{Command: command, Keys: 1, Bytes: 1}); err == nil {
				t.Errorf("%q is accepted", command)
			}
		})
	}
}

// TestMongoPopulate: every key is inserted once, and a server that stores fewer is an error.
func TestMongoPopulate(t *testing.T) {
	a := mongoTestAsk
	a.Keys = 2*mongoBatch + 500
	d := openMongo(t, a)
	for _, lost := range []int32{0, 1} {
		client, server := net.Pipe()
		ids := make(chan map[string]bool, 1)
		go func() {
			seen := map[string]bool{}
			for {
				head := make([]byte, mongoHead)
				if _, err := io.ReadFull(server, head); err != nil {
					ids <- seen
					return
				}
				size, _ := mongoSize(head)
				rest := make([]byte, size-mongoHead)
				_, _ = io.ReadFull(server, rest)
				command, rest, _ := bsoncore.ReadDocument(rest[5:])
				at := 1 + 4 + len("documents\x00")
				n := int32(0)
				for docs := rest[at:]; len(docs) > 0 && command.Validate() == nil; n++ {
					var doc bsoncore.Document
					doc, docs, _ = bsoncore.ReadDocument(docs)
					seen[doc.Lookup("_id").StringValue()] = true
				}
				_, _ = server.Write(mongoSays(1, bsoncore.NewDocumentBuilder().AppendInt32("n", n-lost).AppendDouble("ok", 1).Build()))
			}
		}()
		requests, err := d.Populate(t.Context(), client)
		client.Close()
		if seen := <-ids; lost == 0 && (err != nil || requests != 3 || len(seen) != a.Keys || !seen["key:000002499"]) {
			t.Errorf("%d requests, %d keys: %v", requests, len(seen), err)
		} else if lost > 0 && (err == nil || requests != 0) {
			t.Errorf("%d documents lost: %d requests, %v", lost, requests, err)
		}
	}
}

// TestMongoHello: a server that does not know hello is greeted as before version 5.0; any other
// refusal is an error.
func TestMongoHello(t *testing.T) {
	unknown := bsoncore.NewDocumentBuilder().AppendString("codeName", "CommandNotFound").AppendDouble("ok", 0).Build()
	refused := bsoncore.NewDocumentBuilder().AppendString("codeName", "Unauthorized").AppendDouble("ok", 0).Build()
	fine := bsoncore.NewDocumentBuilder().AppendDouble("ok", 1).Build()
	for _, c := range []struct {
		answers [][]byte
		asked   string
		good    bool
	}{
		{[][]byte{fine}, "hello", true},
		{[][]byte{unknown, fine}, "hello isMaster", true},
		{[][]byte{unknown, unknown}, "hello isMaster", false},
		{[][]byte{refused}, "hello", false},
	} {
		t.Run(c.asked, func(t *testing.T) {
			client, server := net.Pipe()
			asked := make(chan string, 1)
			go func() {
				defer server.Close()
				var words []string
				for _, says := range c.answers {
					head := make([]byte, mongoHead)
					_, _ = io.ReadFull(server, head)
					size, _ := mongoSize(head)
					rest := make([]byte, size-mongoHead)
					_, _ = io.ReadFull(server, rest)
					words = append(words, bsoncore.Document(rest[5:]).Index(0).Key())
					_, _ = server.Write(mongoSays(1, says))
				}
				asked <- strings.Join(words, " ")
			}()
			_, _, err := openMongo(t, mongoTestAsk).Begin(t.Context(), client, 1)
			if got := <-asked; got != c.asked || (err == nil) != c.good {
				t.Errorf("asked %q, %v; want %q", got, err, c.asked)
			}
			client.Close()
		})
	}
}

func TestMongoStatus(t *testing.T) {
	nested := func(name string, b []byte) *bsoncore.DocumentBuilder {
		return bsoncore.NewDocumentBuilder().AppendDocument(name, b)
	}
	status := nested("opcounters", bsoncore.NewDocumentBuilder().AppendInt64("query", 1<<40).AppendInt32("insert", 3).AppendString("update", "x").Build()).
		AppendDocument("extra_info", bsoncore.NewDocumentBuilder().AppendInt64("user_time_us", 2_500_000).Build()).
		AppendDocument("wiredTiger", nested("cache", bsoncore.NewDocumentBuilder().AppendDouble("bytes currently in the cache", 4096).Build()).Build()).Build()
	got := mongodbStatus(status)
	want := map[string]float64{"opcounters/query": 1 << 40, "opcounters/insert": 3, "extra_info/user_time_seconds": 2.5, mongodbCache: 4096}
	if len(got) != len(want) {
		t.Errorf("%v, want %v", got, want)
	}
	for name, v := range want {
		t.Run(name, func(t *testing.T) {
			if got[name] != v {
				t.Errorf("%s is %v, want %v", name, got[name], v)
			}
		})
	}
}

// TestMongoVersion: FerretDB says that it is one, and which.
func TestMongoVersion(t *testing.T) {
	for want, status := range map[string]*bsoncore.DocumentBuilder{
		"7.0.5":                                bsoncore.NewDocumentBuilder().AppendString("version", "7.0.5"),
		"FerretDB v1.24.2, for MongoDB 7.0.42": bsoncore.NewDocumentBuilder().AppendString("version", "7.0.42").AppendString("ferretdbVersion", "v1.24.2"),
		"":                                     bsoncore.NewDocumentBuilder().AppendInt32("version", 7),
	} {
		t.Run(want, func(t *testing.T) {
			if got := mongodbVersion(status.Build()); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// FuzzMongoAnswer: no answer causes a panic, or is longer than the input.
func FuzzMongoAnswer(f *testing.F) {
	for _, document := range [][]byte{mongoFound(1, "key:000000000", "000000000ab"), mongoFound(1), {5, 0, 0, 0, 0}} {
		f.Add(mongoSays(1, document))
	}
	d := openMongo(f, mongoTestAsk)
	f.Fuzz(func(t *testing.T, b []byte) {
		s, _ := mongoAsking(d)
		if n, a, err := s.Answer(b); n < 0 || n > len(b) || a.Ended && (n == 0 || err != nil) {
			t.Errorf("%q: %d bytes, %+v, %v", b, n, a, err)
		}
	})
}
