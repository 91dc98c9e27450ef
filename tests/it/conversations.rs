//! Whatever models say and however their streams break, the next request is one that its server takes.
//!
//! The core of the daemon and the rules of the scripted servers talk with each other without sockets: answers are
//! rendered for the request that was built, cut into pieces, decoded and reported; models change in mid-session.

use agent_tests::scripted::{Answer, Dialect as Wire, Ledger, Quirk, Rules, refusal};
use agentd_core::command::{
    CallFault, ChangeSession, CheckedCall, Command, CreateSession, Input, ModelAnswer, ModelFailure, Report,
    Timer,
};
use agentd_core::event::*;
use agentd_core::ids::{ClientId, RunId, SessionId, Stamp};
use agentd_core::model::ids::IdRule;
use agentd_core::model::live::{DecodeFailure, Decoded, Progress};
use agentd_core::model::reader::AnswerReader;
use agentd_core::path_bytes::PathBytes;
use agentd_core::prompt;
use agentd_core::session::{Session, decide};
use agentd_core::transcript::Content;
use proptest::prelude::*;
use serde_json::{Value, json, value::RawValue};
use std::sync::Arc;

/// A model and the rules of its server.
struct Model {
    profile: ModelProfile,
    wire: Wire,
    rules: Rules,
}

fn models() -> Vec<Model> {
    let profile = |provider: &str, model: &str, dialect, chat| ModelProfile {
        provider: provider.to_owned(),
        model: model.to_owned(),
        dialect,
        context_window: 200_000,
        max_output_tokens: 32_000,
        thinking: if dialect == Dialect::Anthropic { ThinkingForm::Adaptive } else { ThinkingForm::Omit },
        parallel_tool_calls: true,
        cache_markers: dialect == Dialect::Anthropic,
        price: Price::default(),
        price_unknown: false,
        chat,
        window_is_guess: false,
    };
    let anthropic = |model: &str| Model {
        profile: profile("anthropic", model, Dialect::Anthropic, ChatForm::default()),
        wire: Wire::Anthropic,
        rules: Rules::default(),
    };
    let chat = |provider: &str, model: &str, form: ChatForm, rules: Rules| Model {
        profile: profile(provider, model, Dialect::OpenAiChat, form),
        wire: Wire::OpenAi,
        rules,
    };
    let usual = ChatForm::default();
    let openai = ChatForm { max_tokens_field: MaxTokensField::MaxCompletionTokens, ..usual };
    let nine = ChatForm { call_ids: CallIdForm::NineAlphanumeric, empty_content: true, ..usual };
    let google = ChatForm { stand_in_signature: true, ..usual };
    let deepseek = ChatForm { reasoning_with_calls: true, ..usual };
    vec![
        anthropic("claude-sonnet-5-5"),
        anthropic("claude-opus-5-5"),
        chat("openai", "gpt", openai, Rules { refuse_max_tokens: true, ..Rules::default() }),
        chat("local", "small", usual, Rules { reasoning_parts: true, ..Rules::default() }),
        chat("mistral", "medium", nine, Rules { mistral_ids: true, mistral_order: true, ..Rules::default() }),
        chat("google", "pro", google, Rules { thought_signatures: true, ..Rules::default() }),
        chat("deepseek", "chat", deepseek, Rules { require_reasoning: true, ..Rules::default() }),
    ]
}

/// What a model says.
#[derive(Clone, Debug)]
struct Said {
    thought: bool,
    text: bool,
    calls: Vec<(usize, usize)>,
    quirk: usize,
    stop: usize,
    /// Where the stream breaks, in hundredths of its length; not at all above 100.
    cut: usize,
    piece: usize,
}

#[derive(Clone, Debug)]
enum Step {
    Send,
    Answer(Said),
    Switch(usize),
    Interrupt,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let call = (0..6_usize, 0..4_usize);
    let said = (
        any::<bool>(),
        any::<bool>(),
        prop::collection::vec(call, 0..4),
        0..Quirk::ALL.len() * 2,
        0..12_usize,
        0..400_usize,
        1..200_usize,
    )
        .prop_map(|(thought, text, calls, quirk, stop, cut, piece)| {
            Step::Answer(Said { thought, text, calls, quirk, stop, cut, piece })
        });
    let step = prop_oneof![
        3 => Just(Step::Send),
        12 => said,
        2 => (0..models().len()).prop_map(Step::Switch),
        1 => Just(Step::Interrupt),
    ];
    prop::collection::vec(step, 1..40)
}

/// A session, its servers, and how often something happened.
struct World {
    session: Session,
    models: Vec<Model>,
    model: usize,
    ledgers: Vec<Ledger>,
    now_ms: i64,
    draws: u64,
    requests: usize,
    answers: usize,
}

fn raw(value: &Value) -> Arc<RawValue> {
    Arc::from(serde_json::value::to_raw_value(value).unwrap())
}

fn epoch(profile: &ModelProfile, reason: &str) -> EpochStarted {
    let tools = json!([{"name": "read_file", "description": "Reads.", "input_schema": {"type": "object"}}]);
    EpochStarted {
        epoch: 0,
        reason: reason.to_owned(),
        profile: profile.clone(),
        system: "You are a test.".into(),
        tools: raw(&tools),
        summary: None,
        strip_thinking: reason != "created",
        tokens_before: 0,
        tokens_after: 0,
    }
}

impl World {
    fn new() -> Self {
        let models = models();
        let settings = Settings {
            name: None,
            model: "anthropic/claude-sonnet-5-5".to_owned(),
            mode: PermissionMode::Full,
            sandbox: SandboxMode::Full,
            attended: true,
            unattended_approvals: UnattendedApprovals::Deny,
            approvals_expire_ms: 1,
            on_restart: OnRestart::Wait,
            limits: TurnLimits::default(),
            record: false,
            results: agentd_core::event::ResultLimits::default(),
        };
        let create = CreateSession {
            session_id: SessionId::new("s_test"),
            cwd: PathBytes::new("/w"),
            root: PathBytes::new("/w"),
            settings,
            parent: None,
            epoch: epoch(&models[0].profile, "created"),
        };
        let ledgers = models.iter().map(|_| Ledger::default()).collect();
        let mut world = Self {
            session: Session::empty(),
            models,
            model: 0,
            ledgers,
            now_ms: 1,
            draws: 0,
            requests: 0,
            answers: 0,
        };
        world.take(Input::Command(Command::Create(Box::new(create))));
        world
    }

    fn take(&mut self, input: Input) -> bool {
        self.draws += 1;
        self.now_ms += 1;
        let mut entropy = [0; 16];
        entropy[..8].copy_from_slice(&self.draws.to_be_bytes());
        let mut stamp = Stamp::new(self.now_ms, RunId::new("d_1"), entropy);
        let client = Origin::Client { client_id: ClientId::new("k_1"), label: "test".into(), uid: 1, pid: 1 };
        match decide(&self.session, input, &client, &mut stamp) {
            Ok(decision) => {
                self.session = decision.next;
                true
            }
            Err(_) => false,
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Send => {
                let parts = vec![InputPart::Text(format!("Input {}.", self.draws))];
                let delivery = if self.draws.is_multiple_of(2) { Delivery::Steer } else { Delivery::Queue };
                self.take(Input::Command(Command::SendInput { parts, delivery }));
            }
            Step::Switch(to) => {
                let profile = &self.models[*to].profile;
                let name = format!("{}/{}", profile.provider, profile.model);
                let model = Some((name, Box::new(epoch(profile, "model_changed"))));
                let change = ChangeSession { model, ..ChangeSession::default() };
                if self.take(Input::Command(Command::Change(change))) {
                    self.model = *to;
                }
            }
            Step::Interrupt => {
                self.take(Input::Command(Command::Interrupt {
                    turn: None,
                    call_id: None,
                    partial_text: None,
                }));
            }
            Step::Answer(said) => self.exchange(said),
        }
    }

    /// One request, if one is due, and what comes of it.
    fn exchange(&mut self, said: &Said) {
        let retry = self.session.turn.as_ref().and_then(|turn| turn.retry.clone());
        if let Some(retry) = retry {
            self.now_ms = self.now_ms.max(retry.at_ms);
            self.take(Input::Timer(Timer::Retry { model_call_id: retry.model_call_id }));
        }
        let Some(open) = self.session.turn.as_ref().and_then(|turn| turn.model.clone()) else { return };
        let built = prompt::build(&self.session, open.included_seq, open.max_output_tokens).unwrap();
        assert_eq!(*built.hash, *open.request_hash, "the same request is built again");
        // Providers are one server each, whatever the model.
        let server = self.server();
        let model = &self.models[self.model];
        let request: Value = serde_json::from_slice(&built.body).unwrap();
        let refused = refusal(model.wire, &built.body, &model.rules, &self.ledgers[server]);
        assert!(refused.is_none(), "{refused:?}\n{request:#}");
        self.requests += 1;
        let mut body = self.answer(said).body_to(model.wire, &request, &model.rules);
        if said.cut <= 100 {
            body.truncate(body.len() * said.cut / 100);
        }
        let report = match decode(&model.profile, &built.body, open.model_call_id.as_str(), &body, said.piece)
        {
            Ok(decoded) => Report::ModelFinished(Box::new(answered(open.model_call_id.clone(), decoded))),
            Err(failure) => Report::ModelFailed(Box::new(ModelFailure::new(
                open.model_call_id.clone(),
                failure.class,
                failure.message,
            ))),
        };
        let wire = model.wire;
        assert!(self.take(Input::Report(report)), "a report on an open call is taken");
        // A refused or empty answer is nothing that must come back; its server forgets it with us.
        let kept = self.session.transcript.iter().any(|item| match &item.content {
            Content::Assistant { model_call_id, .. } => *model_call_id == open.model_call_id,
            _ => false,
        });
        if kept {
            self.ledgers[server].record(wire, &request, &body);
            self.answers += 1;
        }
    }

    fn server(&self) -> usize {
        let provider = &self.models[self.model].profile.provider;
        self.models.iter().position(|model| model.profile.provider == *provider).unwrap_or(self.model)
    }

    fn answer(&self, said: &Said) -> Answer {
        let model = &self.models[self.model];
        let number = self.draws;
        let mut answer = Answer::new();
        if said.thought {
            answer = answer.thought(&format!("Thought {number}."));
        }
        if said.text {
            answer = answer.text(format!("Text {number}."));
        }
        for (place, (id, name)) in said.calls.iter().enumerate() {
            let id = match id {
                0 => "call_0".to_owned(),
                1 => format!("functions.read_file:{number}"),
                2 => String::new(),
                3 => "call_1".to_owned(),
                _ => format!("toolu_{number}_{place}"),
            };
            let id = if model.rules.mistral_ids { format!("{:09}", number * 10 + place as u64) } else { id };
            let name = ["read_file", "read_file", "no such tool!", ""][*name];
            answer = answer.tool_use(&id, name, json!({"path": format!("{number}.txt")}));
        }
        // Gemini's own calls come with their signature by its rule; reasoning of DeepSeek stays in its field.
        let quirk = Quirk::ALL.get(said.quirk).copied().filter(|quirk| {
            !matches!(quirk, Quirk::ReasoningParts | Quirk::ReasoningDetails | Quirk::ThinkTags)
                || model.profile.provider == "local"
        });
        if let Some(quirk) = quirk {
            answer = answer.quirk(quirk);
        }
        match said.stop {
            0 => answer.stop("max_tokens"),
            1 => answer.stop("refusal"),
            2 if model.wire == Wire::Anthropic => answer.stop("pause_turn"),
            3 => answer.stop("brand_new"),
            4 => answer.stop("end_turn"),
            _ => answer,
        }
    }
}

fn decode(
    profile: &ModelProfile,
    sent: &[u8],
    seed: &str,
    body: &[u8],
    piece: usize,
) -> Result<Decoded, DecodeFailure> {
    let mut reader = AnswerReader::new(profile.dialect);
    for piece in body.chunks(piece) {
        if reader.push(piece, &mut |_| {})? == Progress::Complete {
            break;
        }
    }
    let sent = String::from_utf8_lossy(sent).into_owned();
    reader.finish(&IdRule { seed, used: &|id| sent.contains(&format!("\"{id}\"")) }, &mut |_| {})
}

/// No tool runs here: each call fails its check, in a way of its own so that no breaker trips.
fn answered(model_call_id: agentd_core::ids::ModelCallId, decoded: Decoded) -> ModelAnswer {
    let calls = decoded.blocks.iter().filter_map(|block| block.call.as_ref());
    let fault = |call: &BlockCall| {
        CheckedCall::Invalid(CallFault {
            class: format!("{model_call_id}/{}", call.provider_call_id),
            outcome: CallOutcome::Invalid,
            text: format!("Unknown tool {}", call.name),
        })
    };
    let checked = calls.map(fault).collect();
    ModelAnswer {
        checked,
        blocks: decoded.blocks,
        stop: decoded.stop,
        usage: decoded.usage,
        usage_raw: decoded.usage_raw,
        usage_reported: decoded.usage_reported,
        provider_message_id: decoded.provider_message_id,
        provider_request_id: None,
        warnings: decoded.warnings,
        last_prompt_tokens: decoded.last_prompt_tokens,
        model_call_id,
    }
}

fn lived(steps: &[Step]) -> World {
    let mut world = World::new();
    world.step(&Step::Send);
    for step in steps {
        world.step(step);
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_is_taken_by_its_server(steps in steps()) {
        lived(&steps);
    }
}

/// The scripts of the property come to something: requests to every server, after answers of every other.
#[test]
fn the_conversations_are_worth_checking() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut requests, mut answers) = (0, 0);
    for _ in 0..64 {
        let world = lived(&steps().new_tree(&mut runner).unwrap().current());
        requests += world.requests;
        answers += world.answers;
    }
    assert!(requests > 400 && answers > 250, "{requests} requests, {answers} answers");
}
