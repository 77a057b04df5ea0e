package driver

import (
	"context"
	"path/filepath"

	"mercator/formats/store"
	"mercator/pkg/base/durable"
	"mercator/pkg/base/fault"
	"mercator/pkg/crawl"
	"mercator/pkg/driver/setup"
	"mercator/pkg/driver/tell"
	"mercator/pkg/fetch"
	"mercator/pkg/folder/shard"
	"mercator/pkg/view/derive"
)

// indexMemory bounds the memory of sorting an index, in bytes; the rest waits on disk.
const indexMemory = 16 << 20

// Seal gives the WARC files of the crawl in dir their final names, and brings their index up to date. It
// is no transaction: checkpoints, replay and later rounds do not change. Sealing twice changes nothing.
// It is refused while somebody drives the crawl, or a round is open.
func Seal(ctx context.Context, dir string, progress func(int64)) (sealed int, err error) {
	folder, err := setup.Open(dir, crawl.Options{})
	if err != nil {
		return 0, err
	}
	lock, err := folder.Hold(ctx, "mcrawl seal", 0)
	if err != nil {
		return 0, err
	}
	defer lock.Close()
	return seal(ctx, folder, progress)
}

// seal is Seal; the caller holds the driver's lock.
func seal(ctx context.Context, folder *crawl.Crawl, progress func(int64)) (sealed int, err error) {
	st, err := folder.State()
	if err != nil {
		return 0, err
	}
	if len(st.Rounds) > 0 {
		return 0, &fault.Error{Class: fault.Conflict, File: folder.Dir(), Found: "round " + st.Rounds[0] + " is open", Want: "a crawl between two rounds",
			Hint: "end it: " + fault.Quote("mcrawl", "run", folder.Dir())}
	}
	dirs, err := shard.Dirs(durable.OS, folder.Dir())
	if err != nil {
		return 0, err
	}
	var archives []string // the stores of WARC files, as the index names them
	var stores []string   // the folders of these stores
	for _, dir := range dirs {
		stores = append(stores, filepath.Join(dir, fetch.Kind))
		archive, err := store.Open(filepath.Join(dir, fetch.Kind), fetch.Kind, fetch.Version, store.Options{LockWait: setup.LockWait})
		if err != nil {
			return sealed, err
		}
		n, err := fetch.Seal(ctx, archive)
		if sealed += n; err != nil {
			return sealed, err
		}
		archives = append(archives, "../"+archive.NameInCrawl())
	}
	parts, err := tell.Archived(folder.Dir())
	if err != nil {
		return sealed, err
	}
	name, err := tell.NameOf(folder.Dir())
	if err != nil {
		return sealed, err
	}
	return sealed, derive.KeepIndex(ctx, durable.OS, filepath.Join(folder.Dir(), tell.IndexDir), name, archives, parts, fetchRows(folder, stores), indexMemory, progress)
}

// fetchRows are the rows of all that the fetch stores have archived; nil where they are not there, or the stores do not say what
// they have: the index is then made of the archive.
func fetchRows(folder *crawl.Crawl, stores []string) *derive.Rows {
	places, known, err := fetch.Places(stores, store.Options{})
	if err != nil || !known {
		return nil
	}
	kept, err := folder.Files()
	if err != nil {
		return nil
	}
	name, err := kept.Outcomes()
	if err != nil || kept.AllThere(name) != nil {
		return nil
	}
	if files, err := kept.Files(name); err == nil && len(files) > 0 {
		return &derive.Rows{Files: files, Places: places}
	}
	return nil
}
