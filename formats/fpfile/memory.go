package fpfile

type memory struct{ data []byte }
