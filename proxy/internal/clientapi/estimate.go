package clientapi

// Tokens that a request has in addition to its text. The numbers are rounded up, because clients count tokens to stay
// within the context window, which an underestimate would let them exceed.
const (
	messageTokens  = 8     // delimiters and role of a message
	toolsTokens    = 700   // the provider's own instructions on calling tools
	formatTokens   = 200   // the provider's own instructions on the response format
	thinkingTokens = 50    // the provider's own instructions on thinking or its effort
	fileTokens     = 3_000 // a page, as an image and as text
	fileBytes      = 20    // bytes per token of a longer file
)

// ImageTokens is the approximate number of tokens of the largest image that providers do not scale down.
const ImageTokens = 1_600

// FileTokens returns the approximate number of tokens of a document or audio, given its base64 data.
func FileTokens(data []byte) int64 { return max(fileTokens, int64(len(data))/fileBytes) }

// EstimateTokens returns the approximate number of prompt tokens of a request without its images and files. It rounds
// up: it assumes three bytes of ASCII or two other bytes per token, while most tokenizers need four and about three.
func (f *Facts) EstimateTokens(body []byte) int64 {
	nonASCII := 0
	for _, b := range body {
		if b >= 0x80 {
			nonASCII++
		}
	}
	nonASCII = min(nonASCII, f.TextBytes)
	n := (int64(f.TextBytes-nonASCII)+2)/3 + (int64(nonASCII)+1)/2 + messageTokens*int64(f.Messages+1)
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
