package bert

// Read are the tokens whose hidden states a head reads, as rows of the batch [B·(Q+P)]: of each row of the batch the first token of each sequence, then
// the masked positions. A token may be among them more than once. It is nil for a head that reads all tokens.
func (b *Batch) Read(h Head) []int32 { return b.appendRead(nil, h.Task) }

func (b *Batch) appendRead(rows []int32, t Task) []int32 {
	if t == QuestionAnswering {
		return nil
	}
	first, masked := b.perRow(), b.Predictions
	if t != Pretraining {
		masked = 0
	}
	for i := range b.Size {
		for j := range first {
			rows = append(rows, b.firstToken(i*first+j))
		}
		for j := range masked {
			rows = append(rows, b.maskedToken(i*masked+j))
		}
	}
	return rows
}

// firstToken is the row of the first token of a sequence.
func (b *Batch) firstToken(sequence int) int32 {
	row := int32(sequence / b.perRow() * b.Length)
	if b.packed() {
		row += b.FirstPositions[sequence]
	}
	return row
}

// maskedToken is the row of a masked position.
func (b *Batch) maskedToken(prediction int) int32 {
	return int32(prediction/b.Predictions*b.Length) + b.MaskedLMPositions[prediction]
}
