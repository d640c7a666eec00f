// Text whose terms of the field explain themselves on hover and on focus.
import { Tooltip } from "@mantine/core";
import { Fragment } from "react";
import { findTerms, glossary } from "./glossary";

/** Terms explained, text between backticks as code, addresses as links. */
export function Sentence({ text }: { text: string }) {
  return text.split(/(`[^`]+`|https?:\/\/[^\s,;)]*[^\s,;).])/).map((part, i) => {
    if (i % 2 === 0) return <Terms key={i} text={part} />;
    if (part.startsWith("`")) return <code key={i}>{part.slice(1, -1)}</code>;
    return (
      <a key={i} href={part} rel="noreferrer">
        {part}
      </a>
    );
  });
}

function Terms({ text }: { text: string }) {
  return findTerms(text).map((part, i) =>
    part.term === null ? (
      <Fragment key={i}>{part.text}</Fragment>
    ) : (
      <Tooltip key={i} label={glossary[part.term]} multiline w={280} withArrow events={{ hover: true, focus: true, touch: true }}>
        <span className="term" tabIndex={0}>
          {part.text}
        </span>
      </Tooltip>
    ),
  );
}
