// Results of benchmarks: the list, one result, or several side by side.
import { AnswerError, getDocument } from "../api/client";
import { useResource } from "../api/resource";
import type { ReportWords, ResultExperiment, Results } from "../api/types";
import { PlaceLink } from "../frame/link";
import { Problem } from "../frame/problem";
import { Detail } from "../results/detail";
import { ResultList } from "../results/list";
import "../results/results.css";
import { useMachine } from "../state/machine";
import { usePlace } from "../state/use-place";
import { formatSince } from "../format/time";
import { setWords } from "../words/benchmark";
import { sentence } from "../words/empty";

export default function Benchmarks() {
  const words = useResource<ReportWords>("words", async (s) => setWords(await getDocument("words", s)));
  if (words.data) return <Served />;
  return words.error ? <Problem message={words.error} retry={words.retry} /> : <p className="empty">Loading the results.</p>;
}

function Served() {
  const { subject, beside } = usePlace();
  const { tick } = useMachine();
  // A benchmark takes minutes, so a check every half minute is enough.
  const list = useResource<Results>(`results ${Math.floor(tick / 30)}`, (s) => getDocument("results", s));
  if (subject !== "") return <One key={[subject, ...beside].join(" ")} ids={[subject, ...beside]} list={list.data} />;
  return (
    <>
      {list.error && <Problem message={list.error} retry={list.retry} stale={list.data !== null} />}
      {list.data ? <ResultList results={list.data.results ?? []} problems={list.data.problems ?? []} /> : !list.error && <p className="empty">Loading the results.</p>}
    </>
  );
}

/** A document, or the reason why there is none. */
type Answer = { doc: ResultExperiment } | { refused: string };

function One({ ids, list }: { ids: string[]; list: Results | null }) {
  const several = ids.length > 1;
  const call = several ? `comparisons?${ids.map((id) => `id=${encodeURIComponent(id)}`).join("&")}` : `results/${encodeURIComponent(ids[0]!)}`;
  const answer = useResource<Answer>(call, async (s) => {
    try {
      return { doc: await getDocument<ResultExperiment>(call, s) };
    } catch (e) {
      if (e instanceof AnswerError && (e.status === 404 || e.status === 422)) return { refused: e.message };
      throw e;
    }
  });
  const { data } = answer;
  const doc = data && "doc" in data ? data.doc : null;
  return (
    <>
      <p className="back">
        <PlaceLink to={{ subject: "", tab: "", beside: several ? ids : [] }}>All results</PlaceLink>
      </p>
      <div className="section-head first">
        <h2>{several ? `${ids.length} results side by side` : doc ? doc.name || doc.workload.name : "Result"}</h2>
        {doc && !several && <p>{formatSince(doc.started_at)}</p>}
      </div>
      {several && (
        <ul className="inline-facts">
          {ids.map((id) => {
            const r = list?.results?.find((r) => r.id === id);
            return (
              <li key={id}>
                <PlaceLink to={{ subject: id, beside: [] }}>{r ? `${r.name}, ${(r.environments ?? []).join(", ")}, ${formatSince(r.started)}` : id}</PlaceLink>
              </li>
            );
          })}
        </ul>
      )}
      {answer.error && <Problem message={answer.error} retry={answer.retry} stale={data !== null} />}
      {!data && !answer.error && <p className="empty">Loading the {several ? "results" : "result"}.</p>}
      {data && "refused" in data && (
        <section className="verdict conclusion" aria-label="Refused" data-refused>
          <div>
            <h2>{several ? "These results cannot be compared" : "This result cannot be shown"}</h2>
            <p>{sentence(data.refused)}</p>
            {several && <p>Choose results of one job: the same workload, version, parameters and data.</p>}
          </div>
        </section>
      )}
      {doc && <Detail doc={doc} call={call} />}
    </>
  );
}
