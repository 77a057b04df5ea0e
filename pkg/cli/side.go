package cli

import (
	"mercator/formats/record"
	"mercator/pkg/folder/stage"
)

// Side is a file of rows that a stage writes beside its output, such as what its modules found. The stage's body
// publishes it before the stage commits and its output appears: who sees the output has the file. A nil Side takes
// rows and keeps none.
type Side[T record.Row] struct {
	sink stage.Output
	w    *record.Writer[T]
	txn  string
	made map[string]uint64
}

// CreateSide makes the file. o has the round and epoch of its rows.
func CreateSide[T record.Row](std *Std, path string, o record.WriterOptions) (*Side[T], error) {
	sinks, err := std.Sinks(Output{Output: path})
	if err != nil {
		return nil, err
	}
	of := sinks[0].Options()
	of.Txn, of.Now, of.Epoch, of.Like = o.Txn, o.Now, o.Epoch, o.Like
	w, err := record.NewWriter[T](sinks[0], of)
	if err != nil {
		sinks[0].Abort()
		return nil, err
	}
	return &Side[T]{sink: sinks[0], w: w, txn: o.Txn, made: make(map[string]uint64)}, nil
}

// Write writes a row, which the file's ledger counts by reason.
func (f *Side[T]) Write(reason string, row *T) error {
	if f == nil {
		return nil
	}
	stage.Enter(f.made, reason, 1)
	return f.w.Write(row)
}

// Publish makes the file appear. Its ledger is before, the ledger of the input rows, and then own, with its In, InHash and Consumed.
func (f *Side[T]) Publish(own record.Stage, before record.Ledger) error {
	if f == nil {
		return nil
	}
	rows, hash, err := f.w.Finish()
	if err != nil {
		return err
	}
	own.Txn, own.Out, own.OutHash, own.Made = f.txn, rows, hash.String(), stage.Counts(f.made)
	before.Stages = append(before.Stages[:len(before.Stages):len(before.Stages)], own)
	if _, err := f.w.Commit(before); err != nil {
		return err
	}
	return f.sink.Publish()
}

// Abort gives up what was not published.
func (f *Side[T]) Abort() {
	if f != nil {
		f.sink.Abort()
	}
}
