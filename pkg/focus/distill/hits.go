package distill

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"mercator/pkg/merge"
)

// maxVoices bounds the links of one host to one page, and of one page to one host, that share a voice; further ones are left out.
const maxVoices = 1024

// Rows of weighted links: key of one end; key of the other one, weight.
func appendEdge(b []byte, other uint64, weight float64) []byte {
	b = binary.BigEndian.AppendUint64(b, other)
	return binary.BigEndian.AppendUint64(b, math.Float64bits(weight))
}

func edgeOf(payload []byte) (other uint64, weight float64) {
	return binary.BigEndian.Uint64(payload), math.Float64frombits(binary.BigEndian.Uint64(payload[8:]))
}

func scoreOf(payload []byte) (hub, authority float64) {
	return math.Float64frombits(binary.BigEndian.Uint64(payload)), math.Float64frombits(binary.BigEndian.Uint64(payload[8:]))
}

// host is the part of a URL's key that is its host's.
func host(key uint64) uint64 { return key >> 48 }

// voices collects links in the order of their keys. Links with other ends on the same host share one voice.
type voices struct {
	others  []uint64
	weights []float64
	give    func(other uint64, weight float64, voices int) error
}

func (v *voices) addVoice(other uint64, weight float64) error {
	if len(v.others) > 0 && host(v.others[0]) != host(other) {
		if err := v.giveVoices(); err != nil {
			return err
		}
	}
	if len(v.others) < maxVoices {
		v.others, v.weights = append(v.others, other), append(v.weights, weight)
	}
	return nil
}

func (v *voices) giveVoices() error {
	for i, other := range v.others {
		if err := v.give(other, v.weights[i], len(v.others)); err != nil {
			return err
		}
	}
	v.others, v.weights = v.others[:0], v.weights[:0]
	return nil
}

// weigh makes two runs of the links that count: forward has them by source, for the step from hubs to authorities, with
// R(u)/s(u,v); backward by target, for the step back, with R(v)/t(u,v).
func (f *Folder) weigh(runs int) (forward, backward *table, err error) {
	pages, err := f.open(pagesKind, runs)
	if err != nil {
		return nil, nil, err
	}
	defer pages.close()
	links, err := f.open(linksKind, runs)
	if err != nil {
		return nil, nil, err
	}
	defer links.close()
	byTarget, bySource := merge.NewSorter(f.opt.Memory/3, ""), merge.NewSorter(f.opt.Memory/3, "")
	defer func() { err = errors.Join(err, byTarget.Close(), bySource.Close()) }()

	if err := linksOfRelevant(pages, links, byTarget); err != nil {
		return nil, nil, err
	}
	sorted, err := byTarget.Sort()
	if err != nil {
		return nil, nil, err
	}
	page, err := cursorOf(pages.rows())
	if err != nil {
		return nil, nil, err
	}

	// Of those, the ones to relevant documents, by source: target, R(u)/s(u,v), R(v).
	var b []byte
	var target uint64
	var of float64
	v := voices{give: func(source uint64, weight float64, voices int) error {
		b = appendEdge(b[:0], target, weight/float64(voices))
		return bySource.Add(source, binary.BigEndian.AppendUint64(b, math.Float64bits(of)))
	}}
	edge, err := cursorOf(sorted)
	for ; err == nil && !edge.end; err = edge.next() {
		if edge.key != target {
			if err := v.giveVoices(); err != nil {
				return nil, nil, err
			}
			there, err := page.to(edge.key)
			if err != nil {
				return nil, nil, err
			}
			if target, of = edge.key, 0; there && status(page.payload) == Document {
				of = relevanceOf(page.payload)
			}
		}
		if of > f.opt.Threshold {
			if err := v.addVoice(edgeOf(edge.payload)); err != nil {
				return nil, nil, err
			}
		}
	}
	if err = errors.Join(err, v.giveVoices()); err != nil {
		return nil, nil, err
	}
	if err := byTarget.Close(); err != nil {
		return nil, nil, err
	}
	if sorted, err = bySource.Sort(); err != nil {
		return nil, nil, err
	}
	back := merge.NewSorter(f.opt.Memory/3, "")
	defer func() { err = errors.Join(err, back.Close()) }()
	forward, err = temporary("edges", func(add func(uint64, []byte) error) error {
		var source uint64
		v := voices{give: func(target uint64, weight float64, voices int) error {
			return back.Add(target, appendEdge(nil, source, weight/float64(voices)))
		}}
		edge, err := cursorOf(sorted)
		for ; err == nil && !edge.end; err = edge.next() {
			if edge.key != source {
				if err := v.giveVoices(); err != nil {
					return err
				}
				source = edge.key
			}
			target, _ := edgeOf(edge.payload)
			if err := v.addVoice(target, math.Float64frombits(binary.BigEndian.Uint64(edge.payload[16:]))); err != nil {
				return err
			}
			if err := add(source, edge.payload[:16]); err != nil {
				return err
			}
		}
		return errors.Join(err, v.giveVoices())
	})
	if err != nil {
		return nil, nil, err
	}
	backRows, err := back.Sort()
	if err == nil {
		backward, err = temporary("edges", func(add func(uint64, []byte) error) error { return copyRows(backRows, add) })
	}
	if err != nil {
		return nil, nil, errors.Join(err, forward.close())
	}
	return forward, backward, nil
}

// linksOfRelevant sorts the links of documents of any relevance by target, each with R(u).
func linksOfRelevant(pages, links *table, byTarget *merge.Sorter) error {
	var b []byte
	page, err := cursorOf(pages.rows())
	if err != nil {
		return err
	}
	source, err := cursorOf(links.rows())
	for ; err == nil && !source.end; err = source.next() {
		there, err := page.to(source.key)
		if err != nil {
			return err
		}
		if !there || status(page.payload) != Document || relevanceOf(page.payload) == 0 {
			continue
		}
		for list := source.payload; len(list) >= 8; list = list[8:] {
			target := binary.BigEndian.Uint64(list)
			if host(target) == host(source.key) {
				continue
			}
			b = appendEdge(b[:0], source.key, relevanceOf(page.payload))
			if err := byTarget.Add(target, b); err != nil {
				return err
			}
		}
	}
	return err
}

func copyRows(in stream, add func(uint64, []byte) error) error {
	c, err := cursorOf(in)
	for ; err == nil && !c.end; err = c.next() {
		if err := add(c.key, c.payload); err != nil {
			return err
		}
	}
	return err
}

// spread gives the value of each end of links to the other ends: the sums, scaled to 1. values nil has 1 for each.
func (f *Folder) spread(edges, values *table) (sums *table, err error) {
	sorter := merge.NewSorter(f.opt.Memory/2, "")
	defer func() { err = errors.Join(err, sorter.Close()) }()
	edge, err := cursorOf(edges.rows())
	if err != nil {
		return nil, err
	}
	var value *cursor
	if values != nil {
		if value, err = cursorOf(values.rows()); err != nil {
			return nil, err
		}
	}
	total := 0.0
	var b []byte
	for ; err == nil && !edge.end; err = edge.next() {
		of := 1.0
		if value != nil {
			there, err := value.to(edge.key)
			if err != nil {
				return nil, err
			}
			if !there {
				continue
			}
			of = math.Float64frombits(binary.BigEndian.Uint64(value.payload))
		}
		other, weight := edgeOf(edge.payload)
		total += of * weight
		b = binary.BigEndian.AppendUint64(b[:0], math.Float64bits(of*weight))
		if err := sorter.Add(other, b); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	sorted, err := sorter.Sort()
	if err != nil {
		return nil, err
	}
	return temporary("values", func(add func(uint64, []byte) error) error {
		sum, err := cursorOf(sorted)
		for err == nil && !sum.end {
			key, of := sum.key, 0.0
			for err == nil && !sum.end && sum.key == key {
				of += math.Float64frombits(binary.BigEndian.Uint64(sum.payload))
				err = sum.next()
			}
			if err == nil && of > 0 {
				err = add(key, binary.BigEndian.AppendUint64(nil, math.Float64bits(of/total)))
			}
		}
		return err
	})
}

// score makes the run of scores.
func (f *Folder) score(ctx context.Context, runs int) (err error) {
	forward, backward, err := f.weigh(runs)
	if err != nil {
		return err
	}
	var hubs, authorities *table
	defer func() {
		for _, t := range []*table{forward, backward, hubs, authorities} {
			if t != nil {
				err = errors.Join(err, t.close())
			}
		}
	}()
	next := func(of **table, edges, values *table) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		sums, err := f.spread(edges, values)
		if err != nil {
			return err
		}
		if *of != nil {
			(*of).close()
		}
		*of = sums
		return nil
	}
	for range max(f.opt.Steps, 1) {
		if err := next(&authorities, forward, hubs); err != nil {
			return err
		}
		if err := next(&hubs, backward, authorities); err != nil {
			return err
		}
	}
	return f.write(scoresKind, runs, func(add func(uint64, []byte) error) error {
		hub, err := cursorOf(hubs.rows())
		if err != nil {
			return err
		}
		authority, err := cursorOf(authorities.rows())
		for err == nil && !(hub.end && authority.end) {
			key, b := hub.key, make([]byte, 16)
			if hub.end || !authority.end && authority.key < key {
				key = authority.key
			}
			if !hub.end && hub.key == key {
				copy(b, hub.payload)
				err = hub.next()
			}
			if err == nil && !authority.end && authority.key == key {
				copy(b[8:], authority.payload)
				err = authority.next()
			}
			if err == nil {
				err = add(key, b)
			}
		}
		return err
	})
}

// Raised is a URL that is not fetched and that good hubs link to.
type Raised struct {
	Page
	Hub      float64 // score of the best of the hubs
	Promise  float64 // relevance to expect: the relevance of what the most promising hub links to
	HubCount int     // hubs that link to it
}

// hubScore is the score of a page as a hub.
type hubScore struct {
	key   uint64
	score float64
}

// bestHubs are the pages with the highest scores, in the order of their keys.
func bestHubs(scores *table, most int) (hubs []hubScore, err error) {
	top := merge.NewHeap(func(a, b *hubScore) bool { return a.score < b.score || a.score == b.score && a.key > b.key })
	c, err := cursorOf(scores.rows())
	for ; err == nil && !c.end; err = c.next() {
		h := hubScore{key: c.key}
		if h.score, _ = scoreOf(c.payload); h.score > 0 {
			if top.Push(h); top.Len() > most {
				top.Pop()
			}
		}
	}
	for top.Len() > 0 {
		hubs = append(hubs, top.Pop())
	}
	slices.SortFunc(hubs, func(a, b hubScore) int { return cmp.Compare(a.key, b.key) })
	return hubs, err
}

// Raise calls each for the URLs that are not fetched and that the best hubs link to, most of them at a time, in the order of
// their keys. A hub promises what its links gave so far: the mean relevance of the documents that it links to and of its own.
func (f *Folder) Raise(ctx context.Context, most int, each func(*Raised) error) (err error) {
	defer func() { err = f.anew(err) }()
	tables, err := f.current(pagesKind, linksKind, scoresKind)
	if err != nil {
		return err
	}
	defer func() {
		for _, t := range tables {
			err = errors.Join(err, t.close())
		}
	}()
	pages, links, scores := tables[0], tables[1], tables[2]
	hubs, err := bestHubs(scores, most)
	if err != nil {
		return err
	}

	byTarget := merge.NewSorter(f.opt.Memory/2, "")
	defer func() { err = errors.Join(err, byTarget.Close()) }()
	if err := hubLinks(byTarget, links, hubs); err != nil {
		return err
	}
	sorted, err := byTarget.Sort()
	if err != nil {
		return err
	}
	promises := make([]promise, len(hubs))
	waiting, err := promised(sorted, pages, promises)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, waiting.close()) }()
	page, err := cursorOf(pages.rows())
	if err != nil {
		return err
	}
	target, err := cursorOf(waiting.rows())
	for err == nil && !target.end {
		r := Raised{}
		key := target.key
		for err == nil && !target.end && target.key == key {
			i, _ := binary.Uvarint(target.payload)
			r.Hub = max(r.Hub, hubs[i].score)
			if p := promises[i]; p.n > 0 {
				r.Promise = max(r.Promise, p.sum/p.n)
			}
			r.HubCount++
			err = target.next()
		}
		if err != nil {
			return err
		}
		if _, err = page.to(key); err == nil {
			if r.Page, err = parsePage(page.payload); err == nil {
				err = each(&r)
			}
		}
		if err == nil {
			err = context.Cause(ctx)
		}
	}
	return err
}

// hubLinks adds the hubs and what they link to, each with the number of its hub.
func hubLinks(byTarget *merge.Sorter, links *table, hubs []hubScore) error {
	link, err := cursorOf(links.rows())
	if err != nil {
		return err
	}
	for i, h := range hubs {
		there, err := link.to(h.key)
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		for list := link.payload; len(list) >= 8; list = list[8:] {
			if err := byTarget.Add(binary.BigEndian.Uint64(list), binary.AppendUvarint(nil, uint64(i))); err != nil {
				return err
			}
		}
		if err := byTarget.Add(h.key, binary.AppendUvarint(nil, uint64(i))); err != nil { // its own relevance counts like a link's
			return err
		}
	}
	return nil
}

// promise is the relevance of n documents that a hub links to, its own among them.
type promise struct{ sum, n float64 }

// promised adds up what the hubs promise, and lists the targets that are not fetched.
func promised(sorted stream, pages *table, promises []promise) (waiting *table, err error) {
	page, err := cursorOf(pages.rows())
	if err != nil {
		return nil, err
	}
	return temporary("waiting", func(add func(uint64, []byte) error) error {
		target, err := cursorOf(sorted)
		for ; err == nil && !target.end; err = target.next() {
			there, err := page.to(target.key)
			if err != nil {
				return err
			}
			if !there {
				continue
			}
			i, _ := binary.Uvarint(target.payload)
			switch status(page.payload) {
			case Document:
				promises[i].sum += relevanceOf(page.payload)
				promises[i].n++
			case Found:
				if err := add(target.key, target.payload); err != nil {
					return err
				}
			}
		}
		return err
	})
}
