package frontier

import "mercator/formats/segment"

// The rows of the frontier's files.
type (
	Entry      = segment.Entry
	Host       = segment.Host
	Domain     = segment.Domain
	Visit      = segment.Visit
	LevelPlace = segment.LevelPlace
)
