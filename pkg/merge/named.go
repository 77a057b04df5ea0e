package merge

import "io"

// JoinKeys calls each, for every key of keys that rows have, with the first payload of that key. Both ascend.
// It returns the number of keys that no row has.
func JoinKeys(keys Source, rows *Iter, each func(payload []byte) error) (nameless uint64, err error) {
	key, payload, end := rows.Next()
	for {
		block, err := keys.Block()
		if err == io.EOF {
			return nameless, nil
		}
		if err != nil {
			return nameless, err
		}
		for _, k := range block {
			for end == nil && key < k {
				key, payload, end = rows.Next()
			}
			switch {
			case end != nil && end != io.EOF:
				return nameless, end
			case end != nil || key != k:
				nameless++
			default:
				if err := each(payload); err != nil {
					return nameless, err
				}
			}
		}
	}
}
