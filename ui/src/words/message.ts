// The monitor's error messages as readers need them.
import { sentence } from "./empty";

/** A message without the internals of a query: a bad regular expression is quoted there inside of the
 * query that the page made of it. Others stay unchanged. */
export function plainMessage(message: string): string {
  const [, why] = /error parsing regexp: (.*?)(?=: `|[."'\n]*$)/s.exec(message) ?? [];
  return why === undefined ? message : sentence(`not a regular expression: ${why}`);
}
