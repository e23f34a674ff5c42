// The findings of a diagnosis.
import { Badge } from "./ui";
import { type Finding, Verdict } from "./gen/greenroom/v1/status_pb";

const kinds = { [Verdict.UNSPECIFIED]: "plain", [Verdict.OK]: "good", [Verdict.WARN]: "warn", [Verdict.FAIL]: "bad" } as const;

export function Findings({ of }: { of: Finding[] }) {
  return (
    <ul class="findings">
      {of.map((f) => (
        <li key={f.check + f.found}>
          <Badge kind={kinds[f.verdict]}>{Verdict[f.verdict]}</Badge> <strong>{f.check}</strong> {f.found}
          {f.remedy && <p class="note">{f.remedy}</p>}
        </li>
      ))}
    </ul>
  );
}
