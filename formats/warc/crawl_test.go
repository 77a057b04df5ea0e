package warc

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mercator/formats/record"
	"mercator/pkg/base/fault"
)

var fullRow = record.Fetch{
	URL: "http://h.test/a?b=c:d", Key: 1<<63 + 5, Host: "h.test:8080", Priority: 3, Score: 0.1, Depth: 7, Attempt: 2, Via: "http://h.test/",
	Discovered: 12345, Addr: "2001:db8::1", ETag: `W/"x: y"`, LastModified: "Tue, 15 Nov 1994 12:45:26 GMT", LastContentFP: 77,
	Role: record.RolePage, FetchTime: 1_700_000_000_123_456, DurationUS: 1, RequiredDelayUS: 2, Outcome: record.OutcomeFetched, Status: 200,
	MIME: "text/html", Charset: "utf-8", BodyLength: 9, Truncated: "length", ContentFP: 99, PayloadSHA1: "3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
	X: `{"id":"a: b"}`, Hops: 20, Requisite: 2, Sitemap: 3, RedirectURL: "http://h.test/b", RetryAfter: 1_700_000_001_000_000, Error: "größer: than", FreshUntil: 1_700_000_002_000_000,
}

func TestOutcomeComesBackWhole(t *testing.T) {
	elsewhere := []string{"Duplicate", "Body", "WARCFilename", "WARCOffset", "WARCLength", "Extra"}
	for i, v := 0, reflect.ValueOf(fullRow); i < v.NumField(); i++ {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() != slices.Contains(elsewhere, name) {
			t.Errorf("column %s of the test's row: %v", name, v.Field(i))
		}
	}
	round := Round{Txn: "r1", Epoch: 4}
	for _, row := range []record.Fetch{fullRow, {URL: "http://h.test/", Role: record.RoleRobots, Outcome: record.OutcomeDNS}} {
		block := AppendOutcome(nil, round, &row)
		got, ok, err := ReadOutcome(&Record{Type: TypeMetadata, ContentType: MediaFields, Block: bytes.NewReader(block), Length: int64(len(block))})
		if err != nil || !ok || got.Round != round {
			t.Fatalf("%+v, %v, %v", got.Round, ok, err)
		}
		if d := cmp.Diff(row, got.Row, cmpopts.IgnoreUnexported(record.Extra{})); d != "" {
			t.Error(d)
		}
	}
}

func TestRoundAndHostnameComeBack(t *testing.T) {
	date := time.UnixMicro(1_700_000_000_000_001).UTC()
	for _, r := range []Round{{}, {Txn: "r1", Epoch: 9, Now: 1_700_000_000_000_002}} {
		if got, ok, err := ReadRound(NewInfo("f.warc.gz", date, r, []Field{{"software", "x"}})); err != nil || !ok || got != r {
			t.Errorf("%+v, %v, %v; want %+v", got, ok, err, r)
		}
	}
	for _, h := range []Hostname{
		{Host: "h.test:8080", Addr: "192.0.2.1,2001:db8::1", Expires: 1_700_000_099_000_003},
		{Host: "[2001:db8::1]:99", Addr: "2001:db8::1"},
		{Host: "nx.test", Error: "nxdomain"},
	} {
		t.Run(h.Host, func(t *testing.T) {
			if got, ok, err := ReadHostname(NewHostname(date, h)); err != nil || !ok || got != h {
				t.Errorf("%+v, %v, %v; want %+v", got, ok, err, h)
			}
		})
	}
}

func TestForeignRecordsAreNotOurs(t *testing.T) {
	block := []byte("software: other\r\nfetchTimeMs: 12\r\n")
	rec := func(kind, media string) *Record {
		return &Record{Type: kind, ContentType: media, TargetURI: "dns:x", Block: bytes.NewReader(block), Length: int64(len(block))}
	}
	if _, ok, err := ReadRound(rec(TypeInfo, MediaFields)); ok || err != nil {
		t.Errorf("warcinfo: %v, %v", ok, err)
	}
	if _, ok, err := ReadOutcome(rec(TypeMetadata, MediaFields)); ok || err != nil {
		t.Errorf("metadata: %v, %v", ok, err)
	}
	if _, ok, err := ReadHostname(rec(TypeResource, MediaDNS)); ok || err != nil {
		t.Errorf("resource: %v, %v", ok, err)
	}
	block = []byte("transaction: r1\r\nepoch: minus one\r\n")
	if _, _, err := ReadRound(rec(TypeInfo, MediaFields)); !errors.Is(err, fault.Corrupt) {
		t.Errorf("a bad epoch: %v, want corrupt", err)
	}
	big := &Record{Type: TypeMetadata, ContentType: MediaFields, Block: bytes.NewReader(nil), Length: fieldsMax + 1}
	if _, _, err := ReadOutcome(big); !errors.Is(err, fault.Corrupt) {
		t.Errorf("a huge block: %v, want corrupt", err)
	}
}
