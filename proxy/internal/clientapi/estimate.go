package clientapi

// What a request costs beyond its text, in tokens. The numbers are rounded up: a count that is too low lets a client run into the
// end of the context that it counts for.
const (
	messageTokens  = 8     // what a message has around its content
	toolsTokens    = 700   // what a provider tells the model about calling tools, whichever there are
	formatTokens   = 200   // the same about the form of the response
	thinkingTokens = 50    // and about thinking, or its effort
	fileTokens     = 3_000 // a page, as an image and as text
	fileBytes      = 20    // bytes of a longer file for one token
)

// ImageTokens is about how many tokens the largest image has that is not scaled down.
const ImageTokens = 1_600

// FileTokens is about how many tokens a document or a sound has, by its data in base64.
func FileTokens(data []byte) int64 { return max(fileTokens, int64(len(data))/fileBytes) }

// EstimateTokens is about how many tokens a request has as a prompt, but for its images and files. It is rounded up: three bytes of
// text for a token, and two beyond ASCII, where it is four, and about three, for most tokenizers.
func (f *Facts) EstimateTokens(body []byte) int64 {
	foreign := 0
	for _, b := range body {
		if b >= 0x80 {
			foreign++
		}
	}
	foreign = min(foreign, f.TextBytes)
	n := (int64(f.TextBytes-foreign)+2)/3 + (int64(foreign)+1)/2 + messageTokens*int64(f.Messages+1)
	if f.Tools > 0 {
		n += toolsTokens
	}
	if f.Flags.Has(FlagResponseFormat) {
		n += formatTokens
	}
	if f.Flags&(FlagThinking|FlagReasoning) != 0 {
		n += thinkingTokens
	}
	return n
}
