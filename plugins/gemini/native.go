package gemini

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// Forms returns the forms of requests, besides chat completions, that the plugin accepts.
func (p *gemini) Forms() abi.Forms { return abi.FormGemini | abi.FormEmbeddings }

// passContent sends the request of a Gemini client. Its body is unchanged, because the model is in the path. Options
// about a model's abilities do not apply; they are for requests that this plugin writes.
func (p *gemini) passContent(r *provider.Request) error {
	o := p.settings
	if err := o.read(r.Options); err != nil {
		return err
	}
	if !o.fileURI {
		if err := rejectAccountData(r); err != nil {
			return err
		}
	}
	if o.safety.Exists() {
		given := r.Delete("/safety_settings")
		if given = r.Exists("/safetySettings") || given; given {
			r.Warn(abi.WarnChanged, "safetySettings")
		}
		r.Set("/safetySettings", o.safety)
	}
	if o.vertex { // Vertex AI lacks these members
		for _, member := range [...]string{"functionCall", "function_call", "functionResponse", "function_response"} {
			r.Delete("/contents/*/parts/*/" + member + "/id")
		}
	}
	framing := abi.FramingJSON
	if r.Stream {
		framing = abi.FramingSSE
	}
	r.SetPath(o.path(modelName(r.Target), r.Stream))
	r.Expect(framing, abi.DialectGemini, nil)
	return nil
}

// rejectAccountData rejects a request that makes the provider read data of the operator's account, or fetch a URL with
// the account's permissions. It finds such members with edits, which have no effect because the request is rejected.
func rejectAccountData(r *provider.Request) error {
	const message = "Fetching URLs and files of the account is not enabled for this provider; send the data in inlineData."
	for _, member := range [...]string{"/cachedContent", "/cached_content"} {
		if r.Exists(member) {
			return translate.Unsupported(member[1:], message)
		}
	}
	if r.Has(sdk.FlagTools) {
		for _, tools := range [...]string{"/tools/*", "/tools"} {
			for _, tool := range [...]string{"/retrieval", "/fileSearch", "/file_search"} {
				if r.Delete(tools + tool) {
					return translate.Unsupported("tools", message)
				}
			}
		}
	}
	if !r.Has(sdk.FlagFiles) && !r.Has(sdk.FlagImages) && !r.Has(sdk.FlagAudio) {
		return nil
	}
	for _, content := range [...]string{"/contents/*", "/contents", "/systemInstruction", "/system_instruction"} {
		for _, parts := range [...]string{"/parts/*", "/parts"} {
			for _, in := range [...]string{"", "/functionResponse/parts/*", "/functionResponse/parts", "/function_response/parts/*", "/function_response/parts"} {
				if r.Delete(content+parts+in+"/fileData") || r.Delete(content+parts+in+"/file_data") {
					return translate.Unsupported("contents", message)
				}
			}
		}
	}
	return nil
}
