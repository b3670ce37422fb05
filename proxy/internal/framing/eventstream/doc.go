// Package eventstream reads the event streams of AWS (application/vnd.amazon.eventstream) as they come from a provider.
//
// aws-sdk-go-v2 decodes one frame, both checksums and every type of header value included; this package assembles frames from
// the pieces of a body, bounds their size before it keeps anything of them, and tells what kind of event a frame is.
//
// Concurrency: a Decoder belongs to one goroutine.
//
// The format: https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html and
// https://smithy.io/2.0/aws/amazon-eventstream.html.
package eventstream
