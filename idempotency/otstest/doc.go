// Package otstest is a stand-in for Alibaba Cloud Tablestore that speaks the
// service's wire protocol, so that the real client SDK is what a test drives.
//
// A test of a claim is worth what its store refuses. The stand-in therefore
// checks all that the service checks of a call: the signature (v2 and v4), the
// STS token and its expiry, the clock skew, the MD5 of the body, every
// PlainBuffer checksum, the schema of the primary key, the row and column
// conditions, names, sizes and counts. An option that it does not carry out is
// refused and never ignored. Errors have the service's status, code and
// message.
//
// Some of its answers are traps that the service sets as well:
//
//   - a column condition passes on a missing column and on any stored version,
//     unless the request says otherwise;
//   - an update of an absent row creates it, and a row whose columns are all
//     deleted is still there;
//   - a put replaces the whole row;
//   - a batch of writes is a success where rows of it have failed, but what is
//     wrong with a table, a name or a type fails it as a whole;
//   - the numbers of an auto-increment key rise and leave gaps;
//   - a page of a range may end early, even without a single row, and only the
//     next start key says whether the range is done.
//
// Rows are kept in memory and, with Options.Dir, written through to a file
// before a call is answered, without fsync: an acknowledged write survives
// kill -9 of the process and not the loss of the machine.
//
//	wire (PlainBuffer, protobuf) -> authenticate -> permit -> check -> apply -> store -> answer
//	                                                                        faults After ^
//
// The policies of the identity that a credential belongs to hold for every call;
// a credential without an identity may do everything.
//
// # Limits
//
// One table is one partition, ready at once, without throttling of its own;
// plan a cloudtest.Fault for that. Refused are local transactions, streams,
// secondary and search indexes, SQL, atomic batches, value transfer rules, parts
// of a primary key in ranges, update_full_row and compression. Responses are not
// signed, which no SDK of interest verifies.
//
// Where the service's documents are silent the stand-in does the following. The
// time stamps that it gives to one row rise with every write, also within one
// millisecond, for as long as the row exists. Values of different types are
// unequal and not ordered. A row whose cells have all expired exists. The limit
// of a range counts rows read, shown or not. Two writes of the same version of
// one column in one call are refused, and so is an increment of a column that
// is not an integer. A column page counts columns and not versions, hides no row,
// and is part of no other filter. What a lower maximum of versions hides is
// there again under a higher one, unless a write of the column came between.
//
// Of a table with an auto-increment key the documents say that a put or an
// update of a whole key needs another expectation, and a test of the SDK
// that IGNORE of an absent row ends in OTSConditionCheckFail. Here IGNORE of a
// whole key does so always, and only EXPECT_EXIST reaches a row.
package otstest
