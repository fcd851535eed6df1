(** Sums of numbers that are not negative over any set: the least upper bound of finite sums. *)

From Coq Require Import Reals List Lra Lia ZArith FinFun.
Import ListNotations.
Open Scope R_scope.

Fixpoint finite_sum {I} (f : I -> R) (l : list I) : R :=
  match l with [] => 0 | x :: l => f x + finite_sum f l end.

(** Lists without repetition are the finite subsets. *)
Definition sums_to {I} (f : I -> R) (s : R) : Prop :=
  is_lub (fun y => exists l, NoDup l /\ y = finite_sum f l) s.

Definition nonneg {I} (f : I -> R) : Prop := forall i, 0 <= f i.

Lemma finite_sum_app {I} (f : I -> R) a b : finite_sum f (a ++ b) = finite_sum f a + finite_sum f b.
Proof. induction a as [ | x a IH ]; cbn; [ lra | rewrite IH; lra ]. Qed.

Lemma finite_sum_nonneg {I} (f : I -> R) l : nonneg f -> 0 <= finite_sum f l.
Proof. intros H. induction l as [ | x l IH ]; cbn; [ lra | specialize (H x); lra ]. Qed.

Lemma finite_sum_ext {I} (f g : I -> R) l : (forall i, f i = g i) -> finite_sum f l = finite_sum g l.
Proof. intros H. induction l as [ | x l IH ]; cbn; [ reflexivity | now rewrite H, IH ]. Qed.

Lemma finite_sum_le {I} (f g : I -> R) l :
  (forall i, In i l -> f i <= g i) -> finite_sum f l <= finite_sum g l.
Proof.
  induction l as [ | x l IH ]; cbn; intros H; [ lra | ].
  assert (f x <= g x) by (apply H; now left).
  assert (finite_sum f l <= finite_sum g l) by (apply IH; intros; apply H; now right). lra.
Qed.

Lemma finite_sum_scale {I} (f : I -> R) c l : finite_sum (fun i => c * f i) l = c * finite_sum f l.
Proof. induction l as [ | x l IH ]; cbn; [ lra | rewrite IH; lra ]. Qed.

Lemma finite_sum_map {I J} (f : I -> R) (h : J -> I) l :
  finite_sum f (map h l) = finite_sum (fun j => f (h j)) l.
Proof. induction l as [ | x l IH ]; cbn; [ reflexivity | now rewrite IH ]. Qed.

Lemma no_repetition_app {I} (a b : list I) : NoDup a -> NoDup b ->
  (forall x, In x a -> ~ In x b) -> NoDup (a ++ b).
Proof.
  intros Ha Hb H. induction Ha as [ | x a Hx Ha IH ]; cbn; [ exact Hb | ]. constructor.
  - intros Hin. apply in_app_or in Hin. destruct Hin; [ contradiction | ]. apply (H x); [ now left | assumption ].
  - apply IH. intros y Hy. apply H. now right.
Qed.

Lemma finite_sum_incl {I} (f : I -> R) l l' : nonneg f -> NoDup l -> incl l l' ->
  finite_sum f l <= finite_sum f l'.
Proof.
  intros H0. revert l'. induction l as [ | x l IH ]; intros l' Hl Hincl.
  - cbn. now apply finite_sum_nonneg.
  - assert (Hx : In x l') by (apply Hincl; now left).
    apply in_split in Hx. destruct Hx as (l1 & l2 & ->).
    inversion Hl as [ | ? ? Hnot Hl' ]; subst.
    assert (Hrest : incl l (l1 ++ l2)).
    { intros y Hy. assert (Hy' : In y (l1 ++ x :: l2)) by (apply Hincl; now right).
      apply in_app_or in Hy'. apply in_or_app. destruct Hy' as [ | [ <- | ] ]; auto. contradiction. }
    specialize (IH _ Hl' Hrest). rewrite finite_sum_app in *. cbn. lra.
Qed.

Lemma sums_upper {I} (f : I -> R) s l : sums_to f s -> NoDup l -> finite_sum f l <= s.
Proof. intros [H _] Hl. apply H. now exists l. Qed.

Lemma sums_lower {I} (f : I -> R) s b : sums_to f s ->
  (forall l, NoDup l -> finite_sum f l <= b) -> s <= b.
Proof. intros [_ H] Hb. apply H. intros y (l & Hl & ->). now apply Hb. Qed.

Lemma sums_intro {I} (f : I -> R) s : (forall l, NoDup l -> finite_sum f l <= s) ->
  (forall b, (forall l, NoDup l -> finite_sum f l <= b) -> s <= b) -> sums_to f s.
Proof.
  intros Hup Hlow. split.
  - intros y (l & Hl & ->). now apply Hup.
  - intros b Hb. apply Hlow. intros l Hl. apply Hb. now exists l.
Qed.

Lemma sums_unique {I} (f : I -> R) s t : sums_to f s -> sums_to f t -> s = t.
Proof. intros [Hs Hs'] [Ht Ht']. apply Rle_antisym; auto. Qed.

Lemma sums_nonneg {I} (f : I -> R) s : sums_to f s -> 0 <= s.
Proof. intros H. apply (sums_upper f s [] H). constructor. Qed.

Lemma sums_ext {I} (f g : I -> R) s : (forall i, f i = g i) -> sums_to f s -> sums_to g s.
Proof.
  intros H Hf. apply sums_intro.
  - intros l Hl. rewrite <- (finite_sum_ext f g) by exact H. now apply sums_upper.
  - intros b Hb. apply (sums_lower f s b Hf). intros l Hl.
    rewrite (finite_sum_ext f g) by exact H. now apply Hb.
Qed.

Lemma sums_exist {I} (f : I -> R) b : (forall l, NoDup l -> finite_sum f l <= b) ->
  exists s, sums_to f s /\ s <= b.
Proof.
  intros Hb. destruct (completeness (fun y => exists l, NoDup l /\ y = finite_sum f l)) as [s Hs].
  - exists b. intros y (l & Hl & ->). now apply Hb.
  - exists 0, []. split; [ constructor | reflexivity ].
  - exists s. split; [ exact Hs | ]. apply (sums_lower f s b Hs Hb).
Qed.

Lemma sums_reindex {I J} (f : I -> R) (h : J -> I) (g : I -> J) s :
  (forall j, g (h j) = j) -> (forall i, h (g i) = i) -> sums_to f s -> sums_to (fun j => f (h j)) s.
Proof.
  intros Hgh Hhg Hf.
  assert (Hnodup : forall A B (k : A -> B) (k' : B -> A) l, (forall a, k' (k a) = a) -> NoDup l -> NoDup (map k l)).
  { intros A B k k' l Hk Hl. apply Injective_map_NoDup; [ | exact Hl ].
    intros a b Hab. rewrite <- (Hk a), <- (Hk b). now f_equal. }
  apply sums_intro.
  - intros l Hl. rewrite <- finite_sum_map. apply sums_upper; [ exact Hf | ]. now apply (Hnodup _ _ h g).
  - intros b Hb. apply (sums_lower f s b Hf). intros l Hl.
    specialize (Hb (map g l) (Hnodup _ _ g h l Hhg Hl)). rewrite finite_sum_map in Hb.
    rewrite (finite_sum_ext f (fun i => f (h (g i)))); [ exact Hb | ]. intros i. now rewrite Hhg.
Qed.

Lemma sums_scale {I} (f : I -> R) c s : 0 < c -> sums_to f s -> sums_to (fun i => c * f i) (c * s).
Proof.
  intros Hc Hf. apply sums_intro.
  - intros l Hl. rewrite finite_sum_scale. apply Rmult_le_compat_l; [ lra | ]. now apply sums_upper.
  - intros b Hb. apply (Rmult_le_reg_l (/ c)); [ now apply Rinv_0_lt_compat | ].
    rewrite <- Rmult_assoc, Rinv_l, Rmult_1_l by lra.
    apply (sums_lower f s _ Hf). intros l Hl. specialize (Hb l Hl). rewrite finite_sum_scale in Hb.
    apply (Rmult_le_reg_l c); [ exact Hc | ]. rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l by lra. exact Hb.
Qed.

(** ** Pairs *)

Lemma finite_sum_pairs {I J} (f : I -> R) (g : J -> R) a b :
  finite_sum (fun p => f (fst p) * g (snd p)) (list_prod a b) = finite_sum f a * finite_sum g b.
Proof.
  induction a as [ | x a IH ]; cbn; [ lra | ].
  rewrite finite_sum_app, IH, finite_sum_map. cbn. rewrite finite_sum_scale. lra.
Qed.

Lemma NoDup_pairs {I J} (a : list I) (b : list J) : NoDup a -> NoDup b -> NoDup (list_prod a b).
Proof.
  intros Ha Hb. induction Ha as [ | x a Hx Ha IH ]; cbn; [ constructor | ].
  apply no_repetition_app; [ | exact IH | ].
  - apply Injective_map_NoDup; [ | exact Hb ]. intros y z H. congruence.
  - intros (i, j) H1 H2. apply in_map_iff in H1. destruct H1 as (y & Hy & _).
    apply in_prod_iff in H2. destruct H2 as [H2 _]. congruence.
Qed.

Lemma sums_pairs {I J} (eqI : forall x y : I, {x = y} + {x <> y}) (eqJ : forall x y : J, {x = y} + {x <> y})
  (f : I -> R) (g : J -> R) s t : nonneg f -> nonneg g -> sums_to f s -> sums_to g t ->
  sums_to (fun p => f (fst p) * g (snd p)) (s * t).
Proof.
  intros Hf0 Hg0 Hf Hg.
  assert (Hs0 := sums_nonneg f s Hf). assert (Ht0 := sums_nonneg g t Hg).
  apply sums_intro.
  - intros l Hl.
    set (a := nodup eqI (map fst l)). set (b := nodup eqJ (map snd l)).
    apply Rle_trans with (finite_sum f a * finite_sum g b).
    + rewrite <- finite_sum_pairs. apply finite_sum_incl; [ | exact Hl | ].
      * intros p. now apply Rmult_le_pos.
      * intros (i, j) H. apply in_prod_iff. subst a b. rewrite !nodup_In. split.
        -- now apply (in_map fst) in H.
        -- now apply (in_map snd) in H.
    + apply Rmult_le_compat; try now apply finite_sum_nonneg.
      * apply sums_upper; [ exact Hf | apply NoDup_nodup ].
      * apply sums_upper; [ exact Hg | apply NoDup_nodup ].
  - intros b Hb.
    assert (Hpairs : forall l1 l2, NoDup l1 -> NoDup l2 -> finite_sum f l1 * finite_sum g l2 <= b).
    { intros l1 l2 H1 H2. rewrite <- finite_sum_pairs. apply Hb. now apply NoDup_pairs. }
    assert (Hb0 : 0 <= b). { specialize (Hpairs [] [] (NoDup_nil _) (NoDup_nil _)). cbn in Hpairs. lra. }
    assert (Hdivide : forall x y, 0 <= x -> x * y <= b -> 0 < x -> y <= b / x).
    { intros x y _ Hxy Hx. apply (Rmult_le_reg_l x); [ exact Hx | ].
      replace (x * (b / x)) with b by (field; lra). exact Hxy. }
    assert (Hone : forall l1, NoDup l1 -> finite_sum f l1 * t <= b).
    { intros l1 H1. destruct (finite_sum_nonneg f l1 Hf0) as [Hpos | <-]; [ | lra ].
      assert (Ht : t <= b / finite_sum f l1).
      { apply (sums_lower g t _ Hg). intros l2 H2. apply Hdivide; auto. lra. }
      apply (Rmult_le_compat_l (finite_sum f l1)) in Ht; [ | lra ].
      replace (finite_sum f l1 * (b / finite_sum f l1)) with b in Ht by (field; lra). exact Ht. }
    destruct Ht0 as [Hpos | <-]; [ | lra ].
    assert (Hs : s <= b / t).
    { apply (sums_lower f s _ Hf). intros l1 H1. apply Hdivide; [ lra | | exact Hpos ].
      rewrite Rmult_comm. now apply Hone. }
    apply (Rmult_le_compat_l t) in Hs; [ | lra ].
    replace (t * (b / t)) with b in Hs by (field; lra). lra.
Qed.

(** ** Two sets together *)

Fixpoint lefts {I J} (l : list (I + J)) : list I :=
  match l with [] => [] | inl x :: l => x :: lefts l | inr _ :: l => lefts l end.
Fixpoint rights {I J} (l : list (I + J)) : list J :=
  match l with [] => [] | inr x :: l => x :: rights l | inl _ :: l => rights l end.

Lemma in_lefts {I J} (l : list (I + J)) x : In x (lefts l) -> In (inl x) l.
Proof. induction l as [ | [ y | y ] l IH ]; cbn; [ auto | intros [ <- | ]; auto | auto ]. Qed.
Lemma in_rights {I J} (l : list (I + J)) x : In x (rights l) -> In (inr x) l.
Proof. induction l as [ | [ y | y ] l IH ]; cbn; [ auto | auto | intros [ <- | ]; auto ]. Qed.

Lemma sums_both {I J} (f : I -> R) (g : J -> R) s t : sums_to f s -> sums_to g t ->
  sums_to (fun e : I + J => match e with inl i => f i | inr j => g j end) (s + t).
Proof.
  intros Hf Hg. set (h := fun e : I + J => match e with inl i => f i | inr j => g j end).
  apply sums_intro.
  - intros l Hl.
    assert (Hsplit : finite_sum h l = finite_sum f (lefts l) + finite_sum g (rights l)).
    { clear Hl. induction l as [ | [ x | x ] l IH ]; cbn; [ lra | rewrite IH; lra | rewrite IH; lra ]. }
    assert (NoDup (lefts l) /\ NoDup (rights l)) as [H1 H2].
    { clear Hsplit. induction Hl as [ | [ x | x ] l Hx Hl [IH1 IH2] ]; cbn; split; try assumption; try constructor; try assumption.
      - intros H. apply Hx. now apply in_lefts.
      - intros H. apply Hx. now apply in_rights. }
    rewrite Hsplit. assert (A := sums_upper f s _ Hf H1). assert (B := sums_upper g t _ Hg H2). lra.
  - intros b Hb.
    assert (Hsum : forall l1 l2, NoDup l1 -> NoDup l2 -> finite_sum f l1 + finite_sum g l2 <= b).
    { intros l1 l2 H1 H2. specialize (Hb (map inl l1 ++ map inr l2)).
      rewrite finite_sum_app, !finite_sum_map in Hb. apply Hb. apply no_repetition_app.
      - apply Injective_map_NoDup; [ | exact H1 ]. intros x y H. congruence.
      - apply Injective_map_NoDup; [ | exact H2 ]. intros x y H. congruence.
      - intros e Ha Hc. apply in_map_iff in Ha, Hc.
        destruct Ha as (x & <- & _), Hc as (y & H & _). congruence. }
    enough (t <= b - s) by lra.
    apply (sums_lower g t _ Hg). intros l2 H2. enough (s <= b - finite_sum g l2) by lra.
    apply (sums_lower f s _ Hf). intros l1 H1. specialize (Hsum l1 l2 H1 H2). lra.
Qed.
