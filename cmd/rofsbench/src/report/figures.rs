//! Samples by what they are of.

use std::collections::BTreeMap;

use crate::results::{Results, Sample};
use crate::stats::{Summary, median};
use crate::workload::State;

type Key<'a> = (&'a str, &'a str, State, &'a str);

/// Results that can be looked up.
pub struct Figures<'a> {
    pub results: &'a Results,
    samples: BTreeMap<Key<'a>, Vec<&'a Sample>>,
}

impl<'a> Figures<'a> {
    /// Sorts all samples.
    pub fn new(results: &'a Results) -> Self {
        let mut samples: BTreeMap<Key<'a>, Vec<&Sample>> = BTreeMap::new();
        for sample in &results.samples {
            let key = (
                sample.corpus.as_str(),
                sample.workload.as_str(),
                sample.state,
                sample.system.as_str(),
            );
            samples.entry(key).or_default().push(sample);
        }
        Self { results, samples }
    }

    /// All samples of a row's cell.
    pub fn samples<'b>(
        &'b self,
        corpus: &'b str,
        workload: &'b str,
        state: State,
        system: &'b str,
    ) -> &'b [&'b Sample] {
        self.samples.get(&(corpus, workload, state, system)).map_or(&[], Vec::as_slice)
    }

    /// Everything there are samples of, with their seconds.
    pub fn walls(&self) -> impl Iterator<Item = (Key<'a>, Summary)> {
        self.samples.iter().filter_map(|(key, samples)| Some((*key, wall(samples)?)))
    }

    /// Seconds.
    pub fn wall(
        &self,
        corpus: &str,
        workload: &str,
        state: State,
        system: &str,
    ) -> Option<Summary> {
        wall(self.samples(corpus, workload, state, system))
    }

    /// Median of any number of the samples.
    pub fn median(
        &self,
        corpus: &str,
        workload: &str,
        state: State,
        system: &str,
        number: impl Fn(&Sample) -> Option<f64>,
    ) -> Option<f64> {
        let samples = self.samples(corpus, workload, state, system);
        median(&samples.iter().filter_map(|sample| number(sample)).collect::<Vec<_>>())
    }

    /// How many times as long `against` takes: the ratio of the medians.
    pub fn ratio(
        &self,
        corpus: &str,
        workload: &str,
        state: State,
        subject: &str,
        against: &str,
    ) -> Option<f64> {
        let subject = self.wall(corpus, workload, state, subject)?.median;
        let against = self.wall(corpus, workload, state, against)?.median;
        (subject > 0.0).then(|| against / subject)
    }

    /// States that a workload has samples of.
    pub fn states(&self, corpus: &str, workload: &str) -> Vec<State> {
        let all = [State::Cold, State::Fresh, State::Warm];
        let has = |state: &State| {
            self.samples.keys().any(|key| key.0 == corpus && key.1 == workload && key.2 == *state)
        };
        all.into_iter().filter(has).collect()
    }

    /// Names of systems that have samples of a corpus, in their usual order.
    pub fn systems(&self, corpus: &str) -> Vec<&'a str> {
        let has = |name: &&str| self.samples.keys().any(|key| key.0 == corpus && key.3 == *name);
        self.results.systems.iter().map(|system| system.name.as_str()).filter(has).collect()
    }
}

fn wall(samples: &[&Sample]) -> Option<Summary> {
    Summary::of(&samples.iter().map(|sample| sample.wall).collect::<Vec<_>>())
}
