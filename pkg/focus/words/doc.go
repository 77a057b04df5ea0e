// Package words makes topics of a query: the first half of a focused crawler.
//
// The chain is the one in figure 3 of Singh and Tyagi, "Architecture of a Focused Crawler
// Using Mercator": query, query identifier, words filter, query words database, dictionary
// and matching, word database. What comes out are topics, one for each sense of the query's
// words. The classifier learns from them which pages are relevant (Chakrabarti, van den
// Berg, Dom: "Focused crawling", 1999).
//
// # Parts
//
//   - Identify tells a query that is a word from a set of words and from a URL.
//   - Filter keeps the important words of a text, and says why it takes others out.
//   - Dictionary tells the senses of words and the words beside a sense: WordNet's files, read in
//     place, or a file of one's own. Matching finds a word that is like one that it lacks.
//   - DB is the query words database, a queue, and the word database, in one SQLite file.
//     Expansion works through the queue.
//   - Topic is a sense with its weighted words, and the form of exchange: a JSON line each.
//
// # Invariants
//
//   - Senses stay apart: a word of a topic carries its own sense, and only what stands beside
//     that sense follows it.
//   - The same queries, dictionary and limits give the same topics, also after kills, with several
//     processes at once, and with limits that rose in steps.
//   - The dictionary is asked only for what the database does not have.
//   - Memory does not grow with the dictionary or the database, but for 32 bytes a line of a dictionary in one file,
//     which has at most 500,000.
//   - Matching is symmetric.
package words
