{{- define "greenroom.name" -}}
{{- .Release.Name | replace "." "-" | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "greenroom.labels" -}}
app.kubernetes.io/name: greenroom
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "greenroom.selector" -}}
app.kubernetes.io/name: greenroom
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "greenroom.clusterKeySecret" -}}
{{- default (printf "%s-cluster" (include "greenroom.name" .)) .Values.clusterKey.secretName -}}
{{- end -}}
