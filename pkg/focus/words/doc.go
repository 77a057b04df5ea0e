// Package words makes topics of a query: the first half of a focused crawler.
//
// The chain is that of figure 3 of Singh and Tyagi, "Architecture of a Focused Crawler
// Using Mercator": query, query identifier, words filter, query words database, dictionary
// and matching, word database. What comes out are topics, one for each sense of the query's
// words. The classifier learns from them which pages are relevant (Chakrabarti, van den
// Berg, Dom: "Focused crawling", 1999).
//
// # Parts
//
//   - Identify says whether a query is a word, a set of words or a URL.
//   - Topic is a sense with its weighted words, and the form of exchange: a JSON line each.
package words
