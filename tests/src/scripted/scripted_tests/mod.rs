//! The scripted model itself under test: what is broken is refused in the real shape, what is sound is answered byte
//! for byte, and one script serves both dialects.

mod anthropic;
mod both_tests;
mod cases;
mod lookup_tests;
mod mutation_tests;
mod openai;
mod quirk_tests;
mod refused_by_anthropic_tests;
mod refused_by_openai_tests;
mod replay_tests;
mod served_tests;
mod thinking_tests;
mod turn;
mod wire;
