// Package classify says how relevant a document is to the topics of a focused crawl, and which passages of it are about them: the
// classifier of Chakrabarti, van den Berg and Dom, "Focused crawling: a new approach to topic-specific Web resource
// discovery" (1999), section 3.1, in the chain of Singh and Tyagi's figure 3, and their partial extraction.
//
// It is naive Bayes over stems. A topic is one class, "none of them" another. For each word a Model holds
//
//	ln (p(word | topic) / p(word | none))
//
// in thousandths, so that a score is a sum of whole numbers, the same on every machine. p(word | none) is estimated from pages that are of
// no topic, p(word | topic) from example pages, from the words that a dictionary has for the topic, or from both (Training).
// The relevance of a document is the probability that it is of any topic.
//
// Two corrections of Rennie, Shih, Teevan and Karger, "Tackling the poor assumptions of naive Bayes text classifiers" (2003): a word that
// stands n times in a document counts log2(1+n) times (section 4.1), and a long document counts as one of Model.Evidence words (section 4.3):
// without that, almost every page would score 0 or 1, and a frontier could not tell good links from better ones.
//
// # Invariants
//
//   - A score is 0 to 1. It depends on the model and the document alone, never on threads or on the documents before; of an image also on the
//     score that its row came with.
//   - The same training gives the same bytes of a model, whatever the order of the pages.
//   - Of a document at most MaxText bytes of text and MaxWords words are looked at. No document makes scoring fail; damage of the archive does.
//
// What it does not do: stems are English, and words are runs of letters, so that languages without spaces have none.
package classify
