package mutation_test

// edits are the edits, by package. Tests of what is in the path of every request run with -short.
var edits = []edit{
	// Token buckets.
	{
		what: "a part of a use counts as none",
		file: "proxy/internal/tokenbucket/tokenbucket.go",
		old:  "return (b.level + unitsPerUse - 1) / unitsPerUse", new: "return b.level / unitsPerUse",
		tests: "TestBucket",
	},
	{
		what: "draining loses fractions of a microsecond",
		file: "proxy/internal/tokenbucket/tokenbucket.go",
		old:  "b.drained = b.drained.Add(time.Duration(elapsed) * time.Microsecond)", new: "b.drained = now",
		tests: "TestDrainingKeepsFractions",
	},
	{
		what: "a clock that was set back fills the bucket",
		file: "proxy/internal/tokenbucket/tokenbucket.go",
		old:  "case elapsed <= 0:", new: "case elapsed == 0:",
		tests: "TestBucket",
	},

	// Circuit breakers.
	{
		what: "a failure counts although its attempt began before the circuit opened",
		file: "proxy/internal/breaker/breaker.go",
		old:  "\tif t.epoch != b.epoch {\n\t\treturn Unchanged\n\t}\n\tb.consecutive++\n", new: "\tb.consecutive++\n",
		tests: "TestTrialsAndBackoff TestBreakerMatchesModel",
	},
	{
		what: "after a cancelled trial there is no other",
		file: "proxy/internal/breaker/breaker.go",
		old:  "\t\tb.trial = false\n", new: "",
		tests: "TestTrialsAndBackoff",
	},
	{
		what: "a success does not reset the backoff",
		file: "proxy/internal/breaker/breaker.go",
		old:  "b.unproven, b.consecutive, b.openings = false, 0, 0", new: "b.unproven, b.consecutive = false, 0",
		tests: "TestTrialsAndBackoff",
	},

	// Failures.
	{
		what: "a rate limit says nothing about the target",
		file: "proxy/internal/failure/outcome.go",
		old:  "e.Status >= 400 && e.Status < 500 && e.Status != http.StatusTooManyRequests, ", new: "e.Status >= 400 && e.Status < 500, ",
		tests: "TestMeaningForTarget",
	},
	{
		what: "a request is sent to the same target again although it may have been served",
		file: "proxy/internal/failure/outcome.go",
		old:  " && up.Phase == upstream.PhaseConnect", new: "",
		tests: "TestMeaningForTarget",
	},
	{
		what: "the status page shows the provider's words",
		file: "proxy/internal/failure/cause.go",
		old:  "bare.Words = \"\"", new: "bare.Words = e.Words",
		tests: "TestPublicCause",
	},
	{
		what: "a disconnect is a defect of the gateway",
		file: "proxy/internal/failure/client.go",
		old:  "if errors.Is(err, ErrDisconnected) {", new: "if err == ErrDisconnected {",
		tests: "TestForClient",
	},

	// Accounting.
	{
		what: "a reload adds budgets without a journal",
		file: "proxy/internal/accounting/books.go",
		old:  "\t\treturn errNoJournal\n", new: "\t\treturn nil\n",
		tests: "TestReloadOpensJournal",
	},
	{
		what: "a change of a past window applies to the current one",
		file: "proxy/internal/accounting/change.go",
		old:  "case !s.Start.Equal(c.Start):", new: "case false:",
		tests: "TestChangeOfBudget",
	},
	{
		what: "a reset ignores earlier raises",
		file: "proxy/internal/accounting/change.go",
		old:  "s.Spent-s.Raised, s.Uncertain, \"reset\"", new: "s.Spent, s.Uncertain, \"reset\"",
		tests: "TestChangeOfBudget",
	},

	// Limits and budgets.
	{
		what: "tokens stay reserved after the request",
		file: "proxy/internal/spend/hold.go",
		old:  "\tu.reserved -= h.tokens[i]\n", new: "",
		tests: "TestTokensPerMinute",
	},
	{
		what: "a request that the journal cannot record keeps its hold",
		file: "proxy/internal/spend/hold.go",
		old:  "\t\th.Settle(Used{}, now)\n\t\treturn scopes.unrecorded(err)", new: "\t\treturn scopes.unrecorded(err)",
		tests: "TestJournalFailureRejectsRequests",
	},
	{
		what: "what is settled counts in a window that began after the hold",
		file: "proxy/internal/spend/hold.go",
		old:  "if w := &u.windows[p]; !h.at.Before(w.start) {", new: "if w := &u.windows[p]; true {",
		tests: "TestHoldOutlastsWindow",
	},
	{
		what: "a hold can be settled twice",
		file: "proxy/internal/spend/hold.go",
		old:  "\taccounts, held := h.accounts, h.held\n\t*h = Hold{}\n", new: "\taccounts, held := h.accounts, h.held\n\th.settled = 0\n",
		tests: "TestBudgetHoldsMaximumCost",
	},
	{
		what: "a second attempt counts as a request in flight",
		file: "proxy/internal/spend/hold.go",
		old:  "\t\tif !n.Again {\n\t\t\tu.inflight++\n", new: "\t\tu.inflight++\n\t\tif !n.Again {\n",
		tests: "TestFurtherAttemptIsNoRequest",
	},

	// Attempts that failed.
	{
		what: "holds of failed attempts outlast the request",
		file: "proxy/internal/booking/failed.go",
		old:  "\tfor i, h := range f.holds {\n\t\th.Settle(f.used[i], now)\n\t}\n", new: "",
		tests: "TestFailedAttempts",
	},
	{
		what: "what an attempt has cost is spent twice",
		file: "proxy/internal/booking/failed.go",
		old:  "\tf.unheld = spend.Used{}\n", new: "",
		tests: "TestFailedAttempts",
	},
	{
		what: "another attempt counts as another request",
		file: "proxy/internal/booking/failed.go",
		old:  "Again: true, ", new: "",
		tests: "TestFailedAttempts",
	},
	{
		what: "what is certain to be billed is booked as unknown",
		file: "proxy/internal/booking/booking.go",
		old:  "\tif counted {\n", new: "\tif false {\n",
		tests: "TestUnknown",
	},

	// Holds of a request.
	{
		what: "the hold of a hedge outlasts the request",
		file: "proxy/internal/holds/holds.go",
		old:  "\t\th.hedge.Settle(failed.Plus(cancelled), now)\n", new: "",
		tests: "TestSettle",
	},
	{
		what: "an attempt after a failed one needs no room in the budgets",
		file: "proxy/internal/holds/holds.go",
		old:  "if !h.HoldFailed(now) {", new: "if false {",
		tests: "TestStartAttempt",
	},

	// Routing.
	{
		what: "targets with an open circuit are not last",
		file: "proxy/internal/routing/policy.go",
		old:  "\tslices.SortStableFunc(d.order, func(a, b int) int { return readyFirst(&d.candidates[a], &d.candidates[b]) })\n", new: "",
		tests: "TestOrderIsPermutationOfCandidates TestRouterOrdersTargets",
	},
	{
		what: "rules after the first that matches apply too",
		file: "proxy/internal/routing/policy.go",
		old:  "\t\t}\n\t\treturn\n\t}\n}\n\n// drawCanary", new: "\t\t}\n\t}\n}\n\n// drawCanary",
		tests: "TestRouterGetsRemainingTargets",
	},
	{
		what: "a conversation leaves the target that stores it",
		file: "proxy/internal/routing/policy.go",
		old:  "if r.Previous != \"\" {", new: "if false {",
		tests: "TestConfiguredOrder",
	},
	{
		what: "one attempt more than configured",
		file: "proxy/internal/routing/retry.go",
		old:  "made >= c.Attempts", new: "made > c.Attempts",
		tests: "TestRetryWait",
	},
	{
		what: "a router's failure rejects the request although it may be served",
		file: "proxy/internal/routing/policy.go",
		old:  "if router.Refuse {", new: "if !router.Refuse {",
		tests: "TestRouterOrdersTargets",
	},

	// Admission.
	{
		what: "a rejected body keeps its memory",
		file: "proxy/internal/admission/limiter.go",
		old:  "\t\t\tr.memory.Add(-more)\n", new: "",
		tests: "TestGrow",
	},
	{
		what: "a finished request keeps the memory of its response",
		file: "proxy/internal/admission/limiter.go",
		old:  "\t\tv.limiter.Shrink(&v.response)\n\t\tif v.flow", new: "\t\tif v.flow",
		tests: "TestReleaseReturnsEverything",
	},

	// Framings and connections of providers.
	{
		what: "LF after CR ends another line",
		file: "proxy/internal/framing/sse/decoder.go",
		old:  "d.skipLF = d.in[n] == '\\r'", new: "d.skipLF = false",
		tests: "TestEventIsReturnedAtLastByte",
	},
	{
		what: "a chunk may be longer than its size",
		file: "proxy/internal/upstream/body.go",
		old:  "\tcase chunkDataCR:\n\t\tif c != '\\r' {", new: "\tcase chunkDataCR:\n\t\tif false {",
		tests: "TestMalformedChunks",
	},
	{
		what: "the size of a chunk overflows",
		file: "proxy/internal/upstream/body.go",
		old:  "b.digits > 15", new: "b.digits > 16",
		tests: "TestMalformedChunks",
	},
	{
		what: "a connection is reused beyond its maximum age",
		file: "proxy/internal/upstream/pool.go",
		old:  "\tif p.tooOld(c, now) {\n\t\tc.close()", new: "\tif false {\n\t\tc.close()",
		tests: "TestNameChangesAddress",
	},

	// Connections of clients.
	{
		what: "the rest of an unknown client's request is read without bound",
		file: "proxy/internal/downstream/request.go",
		old:  "\tif known {\n\t\tc.lingerMax", new: "\tif true {\n\t\tc.lingerMax",
		tests: "TestLingeringCloseIsBounded", long: true,
	},
	{
		what: "an empty piece ends a chunked body",
		file: "proxy/internal/chunked/chunked.go",
		old:  "\tif len(data) == 0 {\n\t\treturn dst\n\t}\n", new: "",
		tests: "TestAppend",
	},

	// The response writer.
	{
		what: "a truncated tool call completes",
		file: "proxy/internal/response/commit.go",
		old:  "if c.hasTruncatedCall() {", new: "if false {",
		tests: "TestToolCallWithoutFinishReason",
	},
	{
		what: "a response that goes on after its end is complete if the body then breaks off",
		file: "proxy/internal/response/commit.go",
		old:  "\t\tw.doneAtEnd = false // the provider has sent more after it\n", new: "",
		tests: "TestTruncatedStream",
	},
	{
		what: "a choice goes on after its finish reason",
		file: "proxy/internal/response/commit.go",
		old:  "if c.finished || w.prepared[i].absent {", new: "if w.prepared[i].absent {",
		tests: "TestContentAfterFinishIsDropped",
	},
	{
		what: "the rest of a text is lost at the finish",
		file: "proxy/internal/response/commit.go",
		old:  "\tif s := w.finishText(&c.content); len(s) > 0 {\n\t\tw.r.Text(c.index, s)\n\t}\n", new: "",
		tests: "TestTextEncodings TestDefaultTexts",
	},
	{
		what: "a response without choices completes",
		file: "proxy/internal/response/commit.go",
		old:  "if !hasContent {", new: "if false {",
		tests: "TestRejectsEmptyResponse",
	},
	{
		what: "a failed stream has no error frame",
		file: "proxy/internal/response/writer.go",
		old:  "\tif w.Started() {\n\t\tw.out.Buf = w.r.AppendError", new: "\tif false {\n\t\tw.out.Buf = w.r.AppendError",
		tests: "TestErrorFrameEndsStartedStream",
	},
	{
		what: "a response may be larger than the limit",
		file: "proxy/internal/response/writer.go",
		old:  "\tcase w.Held() > w.o.MaxHeld:\n", new: "\tcase false:\n",
		tests: "TestApplyRejectsOversizedResponse",
	},
	{
		what: "output before a failure prevents another target",
		file: "proxy/internal/response/writer.go",
		old:  "if fail != nil && !w.Started() {", new: "if fail != nil && len(b.Events) == 0 {",
		tests: "TestFailureBeforeFirstByte",
	},
	{
		what: "a filtered response that is rejected stays in the output",
		file: "proxy/internal/response/writer.go",
		old:  "\tif !w.sent {\n\t\tw.out.Buf = Reuse(w.out.Buf)\n\t}\n", new: "",
		tests: "TestRevoke",
	},
	{
		what: "a rejected batch keeps its tool calls",
		file: "proxy/internal/response/prepare.go",
		old:  "\t\t\t\tc.unreserve()\n", new: "\t\t\t\t_ = c\n",
		tests: "TestRejectedBatchReservesNothing",
	},
	{
		what: "text of an incomplete response is not charged for",
		file: "proxy/internal/response/usage.go",
		old:  "!w.complete && !w.revoked && seen > u.Completion", new: "!w.complete && !w.revoked && seen < 0",
		tests: "TestAccountedUsage",
	},
	{
		what: "estimates are reported as the provider's counts",
		file: "proxy/internal/response/usage.go",
		old:  "u.Estimated = !prompt || !completion", new: "u.Estimated = false",
		tests: "TestUsageArithmetic",
	},

	// Usage of providers with the OpenAI API.
	{
		what: "reasoning besides the completion is not charged for",
		file: "proxy/internal/openai/native/usage.go",
		old:  "if hasTotal && hasPrompt && total > prompt+completion {", new: "if hasTotal && hasPrompt && total < 0 {",
		tests: "TestUsageVariants",
	},
	{
		what: "cached tokens besides the prompt are not charged for",
		file: "proxy/internal/openai/native/usage.go",
		old:  "if hasPrompt && cached+written > prompt {", new: "if hasPrompt && cached+written < 0 {",
		tests: "TestUsageVariants",
	},

	// The client APIs.
	{
		what: "usage that the client did not ask for",
		file: "proxy/internal/openai/render.go",
		old:  "if r.head.IncludeUsage {", new: "if true {",
		tests: "TestUsageInStreamOnlyIfAsked", in: "proxy/internal/response",
	},
	{
		what: "estimated usage looks like counts",
		file: "proxy/internal/openai/render_usage.go",
		old:  "if u.Estimated {", new: "if false {",
		tests: "TestUsageArithmetic", in: "proxy/internal/response",
	},
	{
		what: "a truncated call is executed",
		file: "proxy/internal/messages/render.go",
		old:  "if !cut && !r.calls[i].args.complete() {", new: "if cut && !r.calls[i].args.complete() {",
		tests: "TestResponses",
	},
	{
		what: "a client with a tool call thinks that the turn is over",
		file: "proxy/internal/messages/render.go",
		old:  "case len(r.calls) > 0:", new: "case len(r.calls) > 1:",
		tests: "TestGoldenStreams TestResponses",
	},
	{
		what: "the last block is not closed",
		file: "proxy/internal/messages/render.go",
		old:  "\tr.closeOpen()\n}\n\n// failCall", new: "}\n\n// failCall",
		tests: "TestGoldenStreams TestResponses",
	},
	{
		what: "a call that was cut off is complete",
		file: "proxy/internal/responses/render.go",
		old:  "if r.status() == statusIncomplete {\n\t\tstate = outputIncomplete", new: "if false {\n\t\tstate = outputIncomplete",
		tests: "TestRendered",
	},
	{
		what: "held items are not counted",
		file: "proxy/internal/responses/render.go",
		old:  "\tr.out.Held += len(s)\n\treturn append(dst, s...)", new: "\treturn append(dst, s...)",
		tests: "TestHeldMemory",
	},
	{
		what: "a truncated call is executed",
		file: "proxy/internal/gemini/render.go",
		old:  "if !c.calls[i].ended && cut {", new: "if !c.calls[i].ended && !cut {",
		tests: "TestRender",
	},
	{
		what: "a refusal is a normal stop",
		file: "proxy/internal/gemini/render.go",
		old:  "\t\tc.refused = true\n", new: "",
		tests: "TestRender",
	},

	// Filters.
	{
		what: "held text is lost at the finish",
		file: "proxy/internal/filter/renderer.go",
		old:  "\tif err := r.release(ctx, index, nil); err != nil {\n\t\treturn err\n\t}\n\tc := r.at(index)\n", new: "\tc := r.at(index)\n",
		tests: "TestHeldTextIsSentAtFinish",
	},
	{
		what: "held arguments are lost at the finish",
		file: "proxy/internal/filter/renderer.go",
		old:  "if c.tools[i].pending {", new: "if false {",
		tests: "TestFinishSendsWhatIsHeld",
	},
	{
		what: "a tool call overtakes held text",
		file: "proxy/internal/filter/renderer.go",
		old:  "\tif err := r.release(ctx, o.choice, nil); err != nil {\n\t\treturn err\n\t}\n\tt := r.at(o.choice).tool(o.tool)\n", new: "\tt := r.at(o.choice).tool(o.tool)\n",
		tests: "TestHeldTextIsNotOvertaken",
	},
	{
		what: "edited reasoning keeps its signature",
		file: "proxy/internal/filter/renderer.go",
		old:  "if o.part == abi.ReasoningToolEncrypted || r.at(o.choice).block(o.key) == nil {", new: "if true {",
		tests: "TestSignedReasoningIsNotEdited",
	},
	{
		what: "log probabilities reveal what a filter has removed",
		file: "proxy/internal/filter/renderer.go",
		old:  "if c.hasProbs && !c.hideProbs {", new: "if c.hasProbs {",
		tests: "TestLogprobsOfFilteredTextAreDropped",
	},
	{
		what: "held arguments have no limit",
		file: "proxy/internal/filter/renderer.go",
		old:  "r.waiting > response.DefaultMaxHeld", new: "r.waiting < 0",
		tests: "TestHeldArgumentsAreBounded",
	},
	{
		what: "held text of a response that is passed on is lost at its end",
		file: "proxy/internal/filter/passing.go",
		old:  "\treturn r.releasePassed(ctx, nil)\n", new: "\treturn nil\n",
		tests: "TestUnfinishedItemsAreNumbered TestInterleavedItems",
	},

	// Who asks.
	{
		what: "a revoked certificate identifies its holder",
		file: "proxy/internal/identity/certificate.go",
		old:  "\t\t\trevoked = revoked || found\n", new: "\t\t\t_ = found\n",
		tests: "TestCertificates TestHandshakeRefusesRevoked",
	},
	{
		what: "a certificate with several names of a kind is any of them",
		file: "proxy/internal/identity/certificate.go",
		old:  "len(all) == 1", new: "len(all) >= 1",
		tests: "TestCertificates",
	},
	{
		what: "a verdict that denies is ignored",
		file: "proxy/internal/identity/authorization.go",
		old:  "case !v.allow:", new: "case false:",
		tests: "TestVerdicts",
	},
	{
		what: "without a verdict, requests are allowed",
		file: "proxy/internal/identity/authorization.go",
		old:  "case err != nil && a.config.Allow:", new: "case err != nil:",
		tests: "TestServiceFails",
	},
	{
		what: "a verdict for one model is used for another",
		file: "proxy/internal/identity/authorization.go",
		old:  "digest := sha256.Sum256(text)", new: "digest := sha256.Sum256([]byte(q.Principal))",
		tests: "TestVerdictsAreCached",
	},
}
