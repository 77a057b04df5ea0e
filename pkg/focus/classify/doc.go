// Package classify says how relevant a document is to the topics of a focused crawl, and which passages of it are about them: the
// classifier of Chakrabarti, van den Berg and Dom, "Focused crawling: a new approach to topic-specific Web resource
// discovery" (1999), section 3.1, in the chain of Singh and Tyagi's figure 3, and their partial extraction.
//
// A document is a vector of length 1: log2(1+n) for a stem that stands n times, times the inverse document frequency of the stem (Salton and Buckley, 1988).
// So neither its length nor words outside of the model change its class. A topic is a vector, too: the words of the query and of the dictionary, and the mean of
// example pages less the mean of pages of no topic (Rocchio, 1971). The likeness of both is the square root of their cosine, and a part of what links promised.
//
// Nothing else is known beforehand: a Fitted model is made for a crawl as it is. Learned has what its pages teach:
//
//   - Pages of no topic say how rare a word is. Until 100 are known, pages of the sample count as such, whatever they are about. The mean that is taken off
//     is the mean of pages of no topic. With examples nothing is taken off at first: of a crawl that finds little else, nothing would be left.
//   - From 150 pages on, a topic without examples takes pages that have most of the query's words, and then, six times, those that are surely about it, at most 64
//     (Nigam, McCallum, Thrun and Mitchell, 2000, as Chakrabarti's crawler retrains).
//   - The likeness of a sample of pages has two normal distributions, found by EM, as scores of search engines have (Manmatha, Rath and Feng, 2001). That of pages
//     about the topic begins from examples, each measured by a profile that it had no part in. Pages chosen by the query's words are more like it than others
//     of the topic, so their mean may lie below. The score is the probability of the second.
//
// Which of several senses a page is about, the words of the dictionary say that are not the query's.
//
// # Invariants
//
//   - A score is 0 to 1. It depends on the model, on the rounds before, and on the batch, never on threads.
//   - The same training gives the same bytes of a model, whatever the order of the pages; the same rounds the same bytes of Learned.
//   - Learned has at most 131,072 stems, 1,152 pages of 200 words, and 16,384 leads. Of a document at most MaxText bytes of text and MaxWords words are looked at.
//   - No document makes scoring fail; damage of the archive does.
//
// What it does not do: stems are English, with the irregular forms of a dictionary if there is one, and words are runs of letters, so that languages without spaces have none. A page that was judged by few pages is
// not judged again.
package classify
