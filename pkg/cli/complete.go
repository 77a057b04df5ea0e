package cli

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/posener/complete"
	"github.com/willabides/kongplete"

	"mercator/formats/record"
	"mercator/pkg/config"
	"mercator/pkg/frontier"
)

// completes answers a shell that completes a command line: it runs the command without arguments and with the line in
// COMP_LINE. With arguments a command does its work, whatever the environment it comes from. Verbs, flags and enumerations come from the grammar; the tag
// "predictor" names what else a value is: setting (KEY=VALUE), policy, columns. Behind "=" it prints
// values alone, since bash takes "=" for the end of a word. Where it prints nothing the shell offers
// names of files. It returns whether there was such a line.
func completes(parser *kong.Kong) (answered bool) {
	line := os.Getenv("COMP_LINE")
	if line == "" || len(os.Args) > 1 {
		return false
	}
	if point, err := strconv.Atoi(os.Getenv("COMP_POINT")); err == nil && point >= 0 && point < len(line) {
		line = line[:point]
	}
	if setting, value, found := strings.Cut(line[strings.LastIndexAny(line, " \t")+1:], "="); found {
		if key, err := config.KeyOf(setting); err == nil {
			for _, choice := range choices(key) {
				if strings.HasPrefix(choice, value) {
					fmt.Fprintln(parser.Stdout, choice)
				}
			}
			return true
		}
	}
	kongplete.Complete(parser, kongplete.WithExitFunc(func(int) { answered = true }), kongplete.WithPredictors(map[string]complete.Predictor{
		"setting": complete.PredictFunc(keys),
		"policy":  complete.PredictFunc(func(complete.Args) []string { return policies() }),
		"columns": complete.PredictFunc(columnList),
	}))
	return answered
}

func policies() (names []string) {
	for _, p := range frontier.Policies() {
		names = append(names, p.Name)
	}
	return names
}

// keys offers the names of settings.
func keys(complete.Args) (list []string) {
	for _, key := range config.Keys() {
		list = append(list, key.Name+"=")
	}
	return list
}

// choices lists the values of a setting that has few.
func choices(key config.Key) []string {
	if key.Name == "frontier.policy" {
		return policies()
	}
	return key.Choices()
}

// columnList offers one more name for a list with commas.
func columnList(args complete.Args) (list []string) {
	given := args.Last[:strings.LastIndexByte(args.Last, ',')+1]
	all := slices.Concat(record.ColumnNames[record.Fetch](), record.ColumnNames[record.Link](), record.ColumnNames[record.URL](), record.ColumnNames[record.Module]())
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		if !slices.Contains(strings.Split(given, ","), name) {
			list = append(list, given+name)
		}
	}
	return list
}
